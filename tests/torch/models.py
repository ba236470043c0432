"""The zoo's models in PyTorch: torchvision's where it has them, else written here with the zoo's module names.

build(name, size) gives a module that maps a batch to logits (or, with labels, to the loss), for the sizes of a Size.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from random_bits import Dropout, StochasticDepth


@dataclass
class Size:
    batch: int = 2
    image: tuple = ()  # (H, W) or (H, W, D)
    sequence: int = 0
    classes: int = 10
    width: float = 1.0
    dropout: float = 0.0

    def channels(self, published):
        return max(1, int(math.floor(published * self.width + 0.5)))

    def spatial(self):
        """The extents in the order of the dimensions: (H, W) or (D, H, W)."""
        return (self.image[2], *self.image[:2]) if len(self.image) == 3 else self.image


def mlp(size):
    inputs, hidden = 3 * size.image[0] * size.image[1], size.channels(512)
    layers = [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, size.classes)]
    net = nn.Sequential(*layers)
    net.register_forward_pre_hook(lambda _module, inputs: (inputs[0].flatten(1),))
    return net


class Features(nn.Module):
    """Layers under the name "features", a mean over the image, and a head."""

    def __init__(self, layers, head, head_first=False):
        super().__init__()
        self.features, self.classifier, self.head_first = nn.Sequential(*layers), head, head_first

    def forward(self, x):
        x = self.features(x)
        if self.head_first:
            return self.classifier(x).mean((2, 3))
        return self.classifier(x.mean((2, 3)))


def slide_s(size):
    layers, inputs = [], 3
    for channels, stride in ((16, 2), (32, 2), (32, 1), (64, 2), (64, 1), (64, 1), (64, 1)):
        channels = size.channels(channels)
        layers += [nn.Conv2d(inputs, channels, 3, stride, 1), nn.ReLU()]
        inputs = channels
    return Features(layers + [nn.MaxPool2d(4)], nn.Linear(inputs, size.classes))


def darknet19(size):
    layers, inputs = [], 3
    for layer in "32 M 64 M 128 64/1 128 M 256 128/1 256 M 512 256/1 512 256/1 512 M 1024 512/1 1024 512/1 1024".split():
        if layer == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        channels, _, kernel = layer.partition("/")
        channels, kernel = size.channels(int(channels)), int(kernel or 3)
        layers += [nn.Conv2d(inputs, channels, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(channels), nn.LeakyReLU(0.1)]
        inputs = channels
    return Features(layers, nn.Conv2d(inputs, size.classes, 1), head_first=True)


class PreactBlock(nn.Module):
    def __init__(self, inputs, inner, stride):
        super().__init__()
        outer = 4 * inner
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(inner), nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn3, self.conv3 = nn.BatchNorm2d(inner), nn.Conv2d(inner, outer, 1, bias=False)
        self.downsample = None
        if stride != 1 or inputs != outer:
            self.downsample = nn.Conv2d(inputs, outer, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(x))
        shortcut = x if self.downsample is None else self.downsample(y)
        y = self.conv2(F.relu(self.bn2(self.conv1(y))))
        return self.conv3(F.relu(self.bn3(y))) + shortcut


class PreactResNet(nn.Module):
    def __init__(self, size, blocks=111):
        super().__init__()
        self.conv1 = nn.Conv2d(3, size.channels(16), 3, 1, 1, bias=False)
        inputs = size.channels(16)
        for stage in range(3):
            inner, layers = size.channels(16 << stage), []
            for i in range(blocks):
                layers.append(PreactBlock(inputs, inner, 2 if stage > 0 and i == 0 else 1))
                inputs = 4 * inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.bn, self.fc = nn.BatchNorm2d(inputs), nn.Linear(inputs, size.classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return self.fc(F.relu(self.bn(x)).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, size, volume):
        super().__init__()
        conv, norm = (nn.Conv3d, nn.BatchNorm3d) if volume else (nn.Conv2d, nn.BatchNorm2d)
        up = nn.ConvTranspose3d if volume else nn.ConvTranspose2d
        self.pool = nn.MaxPool3d(2) if volume else nn.MaxPool2d(2)
        self.levels, stem = (3, 32) if volume else (4, 64)
        inputs, outputs = 1 if volume else 3, []

        def double(name, inputs, first, second):
            block = nn.Module()
            block.conv1, block.bn1 = conv(inputs, first, 3, padding=1, bias=False), norm(first)
            block.conv2, block.bn2 = conv(first, second, 3, padding=1, bias=False), norm(second)
            self.add_module(name, block)

        for level in range(self.levels + 1):
            channels = size.channels(stem << level)
            last = size.channels(stem << (level + 1)) if volume else channels
            double(f"down{level}", inputs, channels, last)
            outputs.append(last)
            inputs = last
        for level in reversed(range(self.levels)):
            channels = size.channels(stem << (level + 1 if volume else level))
            up_channels = inputs if volume else channels
            self.add_module(f"up{level}", up(inputs, up_channels, 2, 2))
            double(f"merge{level}", outputs[level] + up_channels, channels, channels)
            inputs = channels
        self.head = conv(inputs, size.classes, 1)

    def double(self, name, x):
        block = getattr(self, name)
        x = F.relu(block.bn1(block.conv1(x)))
        return F.relu(block.bn2(block.conv2(x)))

    def forward(self, x):
        outputs = []
        for level in range(self.levels + 1):
            x = self.double(f"down{level}", x if level == 0 else self.pool(x))
            outputs.append(x)
        for level in reversed(range(self.levels)):
            x = torch.cat([outputs[level], getattr(self, f"up{level}")(x)], 1)
            x = self.double(f"merge{level}", x)
        return self.head(x)


class BasicConv(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Parts(nn.Module):
    """Branches over the same input, or a chain of them; the results are concatenated."""

    def __init__(self, paths, **modules):
        super().__init__()
        self.paths = paths  # lists of module names, "pool" and "mean" among them
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        made = {(): x}  # by the way there: what two branches share runs once, and its norm observes it once
        for path in self.paths:
            for i, name in enumerate(path):
                y, way = made[tuple(path[:i])], tuple(path[: i + 1])
                if way in made:
                    continue
                if name == "pool":
                    made[way] = F.max_pool2d(y, 3, 2)
                elif name == "mean":
                    made[way] = F.avg_pool2d(y, 3, 1, 1, count_include_pad=False)
                else:
                    made[way] = getattr(self, name)(y)
        return torch.cat([made[tuple(path)] for path in self.paths], 1)


def inception_v4(size):
    c = size.channels
    row, column = dict(kernel=(1, 7), padding=(0, 3)), dict(kernel=(7, 1), padding=(3, 0))
    short_row, short_column = dict(kernel=(1, 3), padding=(0, 1)), dict(kernel=(3, 1), padding=(1, 0))

    def chain(inputs, *steps):
        layers = []
        for outputs, window in steps:
            layers.append(BasicConv(inputs, c(outputs), **window))
            inputs = c(outputs)
        return nn.Sequential(*layers) if len(layers) > 1 else layers[0]

    one, same, half, valid = dict(kernel=1), dict(kernel=3, padding=1), dict(kernel=3, stride=2), dict(kernel=3)

    def block_a(i):
        return Parts(
            [["branch0"], ["branch1"], ["branch2"], ["mean", "branch3"]],
            branch0=chain(i, (96, one)),
            branch1=chain(i, (64, one), (96, same)),
            branch2=chain(i, (64, one), (96, same), (96, same)),
            branch3=chain(i, (96, one)),
        )

    def reduce_a(i):
        return Parts(
            [["branch0"], ["branch1"], ["pool"]],
            branch0=chain(i, (384, half)),
            branch1=chain(i, (192, one), (224, same), (256, half)),
        )

    def block_b(i):
        return Parts(
            [["branch0"], ["branch1"], ["branch2"], ["mean", "branch3"]],
            branch0=chain(i, (384, one)),
            branch1=chain(i, (192, one), (224, row), (256, column)),
            branch2=chain(i, (192, one), (192, column), (224, row), (224, column), (256, row)),
            branch3=chain(i, (128, one)),
        )

    def reduce_b(i):
        return Parts(
            [["branch0"], ["branch1"], ["pool"]],
            branch0=chain(i, (192, one), (192, half)),
            branch1=chain(i, (256, one), (256, row), (320, column), (320, half)),
        )

    def block_c(i):
        deep = ["branch2_0", "branch2_1", "branch2_2"]
        return Parts(
            [["branch0"], ["branch1_0", "branch1_1a"], ["branch1_0", "branch1_1b"], deep + ["branch2_3a"], deep + ["branch2_3b"]]
            + [["mean", "branch3"]],
            branch0=chain(i, (256, one)),
            branch1_0=chain(i, (384, one)),
            branch1_1a=chain(c(384), (256, short_row)),
            branch1_1b=chain(c(384), (256, short_column)),
            branch2_0=chain(i, (384, one)),
            branch2_1=chain(c(384), (448, short_column)),
            branch2_2=chain(c(448), (512, short_row)),
            branch2_3a=chain(c(512), (256, short_row)),
            branch2_3b=chain(c(512), (256, short_column)),
            branch3=chain(i, (256, one)),
        )

    stem = [
        BasicConv(3, c(32), 3, 2),
        BasicConv(c(32), c(32), 3),
        BasicConv(c(32), c(64), 3, padding=1),
        Parts([["pool"], ["conv"]], conv=chain(c(64), (96, half))),
    ]
    width = c(64) + c(96)
    stem.append(
        Parts(
            [["branch0"], ["branch1"]],
            branch0=chain(width, (64, one), (96, valid)),
            branch1=chain(width, (64, one), (64, row), (64, column), (96, valid)),
        )
    )
    stem.append(Parts([["conv"], ["pool"]], conv=chain(2 * c(96), (192, half))))
    width = c(192) + 2 * c(96)
    blocks = []
    for _ in range(4):
        blocks.append(block_a(width))
        width = 4 * c(96)
    blocks.append(reduce_a(width))
    width += c(384) + c(256)
    for _ in range(7):
        blocks.append(block_b(width))
        width = c(384) + 2 * c(256) + c(128)
    blocks.append(reduce_b(width))
    width += c(192) + c(320)
    for _ in range(3):
        blocks.append(block_c(width))
        width = 6 * c(256)
    net = Features(stem + blocks, None)
    net.classifier = nn.Identity()
    net.add_module("last_linear", nn.Linear(width, size.classes))
    net.register_forward_hook(lambda module, _inputs, output: module.last_linear(output))
    return net


class InceptionV3(torchvision.models.Inception3):
    """The loss of both heads."""

    def loss(self, x, labels):
        logits, auxiliary = self(x)
        return F.cross_entropy(logits, labels) + 0.4 * F.cross_entropy(auxiliary, labels)


# ---- transformers ----

HEAD = 64  # channels of a head


def attend(q, k, v, heads, causal, dropout):
    batch, rows, features = q.shape

    def by_head(t):
        return t.view(batch, t.shape[1], heads, features // heads).transpose(1, 2)

    weights = by_head(q) @ by_head(k).transpose(2, 3) / math.sqrt(features // heads)
    if causal:
        weights = weights.masked_fill(torch.ones(rows, k.shape[1], dtype=torch.bool).triu(1), -math.inf)
    weights = dropout(weights.softmax(-1))
    return (weights @ by_head(v)).transpose(1, 2).reshape(batch, rows, features)


def token_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def tree(pairs):
    """A module whose state_dict has the given dotted names."""
    root = nn.Module()
    for name, module in pairs:
        parts, at = name.split("."), root
        for part in parts[:-1]:
            if not hasattr(at, part):
                at.add_module(part, nn.Module())
            at = getattr(at, part)
        at.add_module(parts[-1], module)
    return root


class Bert(nn.Module):
    def __init__(self, size, layers=12, heads=12):
        super().__init__()
        self.heads, self.layers = size.channels(heads), layers
        e, self.drop = HEAD * self.heads, Dropout.counter(size.dropout)

        def norm():
            return nn.LayerNorm(e, eps=1e-12)

        embeddings = [
            ("word_embeddings", nn.Embedding(size.classes, e)),
            ("position_embeddings", nn.Embedding(512, e)),
            ("token_type_embeddings", nn.Embedding(2, e)),
            ("LayerNorm", norm()),
        ]
        pairs = [(f"embeddings.{name}", module) for name, module in embeddings]
        for i in range(layers):
            layer = f"encoder.layer.{i}"
            pairs += [(f"{layer}.attention.self.{name}", nn.Linear(e, e)) for name in ("query", "key", "value")]
            pairs += [(f"{layer}.attention.output.dense", nn.Linear(e, e)), (f"{layer}.attention.output.LayerNorm", norm())]
            pairs += [(f"{layer}.intermediate.dense", nn.Linear(e, 4 * e))]
            pairs += [(f"{layer}.output.dense", nn.Linear(4 * e, e)), (f"{layer}.output.LayerNorm", norm())]
        self.bert = tree(pairs)
        self.cls = tree([("predictions.transform.dense", nn.Linear(e, e)), ("predictions.transform.LayerNorm", norm())])
        self.cls.predictions.bias = nn.Parameter(torch.zeros(size.classes))

    def forward(self, tokens):
        drop = self.drop()
        embeddings = self.bert.embeddings
        x = embeddings.word_embeddings(tokens) + embeddings.token_type_embeddings.weight[0]
        x = x + embeddings.position_embeddings.weight[: tokens.shape[1]]
        x = drop(embeddings.LayerNorm(x))
        for i in range(self.layers):
            layer = getattr(self.bert.encoder.layer, str(i))
            own = getattr(layer.attention, "self")
            y = attend(own.query(x), own.key(x), own.value(x), self.heads, False, drop)
            x = layer.attention.output.LayerNorm(drop(layer.attention.output.dense(y)) + x)
            y = F.gelu(layer.intermediate.dense(x))
            x = layer.output.LayerNorm(drop(layer.output.dense(y)) + x)
        head = self.cls.predictions
        x = head.transform.LayerNorm(F.gelu(head.transform.dense(x)))
        return F.linear(x, embeddings.word_embeddings.weight, head.bias)

    def loss(self, tokens, labels):
        return token_loss(self(tokens), labels)


class Conv1D(nn.Module):
    """A linear layer with its weight as [inputs, outputs]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


class Gpt2(nn.Module):
    def __init__(self, size, layers=12, heads=12):
        super().__init__()
        self.heads, self.layers = size.channels(heads), layers
        self.features, self.drop = HEAD * self.heads, Dropout.counter(size.dropout)
        e = self.features
        pairs = [("wte", nn.Embedding(size.classes, e)), ("wpe", nn.Embedding(1024, e)), ("ln_f", nn.LayerNorm(e))]
        for i in range(layers):
            pairs += [(f"h.{i}.ln_1", nn.LayerNorm(e)), (f"h.{i}.ln_2", nn.LayerNorm(e))]
            pairs += [(f"h.{i}.attn.c_attn", Conv1D(e, 3 * e)), (f"h.{i}.attn.c_proj", Conv1D(e, e))]
            pairs += [(f"h.{i}.mlp.c_fc", Conv1D(e, 4 * e)), (f"h.{i}.mlp.c_proj", Conv1D(4 * e, e))]
        self.transformer = tree(pairs)
        nn.init.normal_(self.transformer.wte.weight, std=0.02)

    def forward(self, tokens):
        drop, net = self.drop(), self.transformer
        x = drop(net.wte(tokens) + net.wpe.weight[: tokens.shape[1]])
        for i in range(self.layers):
            layer = getattr(net.h, str(i))
            q, k, v = layer.attn.c_attn(layer.ln_1(x)).split(self.features, 2)
            x = drop(layer.attn.c_proj(attend(q, k, v, self.heads, True, drop))) + x
            inner = layer.mlp.c_fc(layer.ln_2(x))
            gelu = 0.5 * inner * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
            x = drop(layer.mlp.c_proj(gelu)) + x
        return F.linear(net.ln_f(x), net.wte.weight)

    def loss(self, tokens, labels):
        return token_loss(self(tokens), labels)


class Transformer(nn.Module):
    def __init__(self, size):
        super().__init__()
        heads = size.channels(8)
        e = HEAD * heads
        whole = nn.Transformer(e, heads, 6, 6, 4 * e, dropout=0.0, activation=lambda x: F.relu(x), batch_first=True)
        self.encoder, self.decoder = whole.encoder, whole.decoder
        self.embedding = nn.Embedding(size.classes, e)
        nn.init.normal_(self.embedding.weight, std=e**-0.5)
        exponent = torch.arange(e, dtype=torch.float64).div(2, rounding_mode="floor") * 2 / e
        angles = torch.arange(size.sequence, dtype=torch.float64)[:, None] / 10000.0**exponent
        self.register_buffer("positions", torch.where(torch.arange(e) % 2 == 0, angles.sin(), angles.cos()))
        self.scale = math.sqrt(e)

    def loss(self, tokens, labels):
        shifted = F.pad(labels[:, :-1], (1, 0))
        memory = self.encoder(self.embedding(tokens) * self.scale + self.positions)
        length = labels.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = self.decoder(self.embedding(shifted) * self.scale + self.positions, memory, tgt_mask=mask)
        return token_loss(F.linear(x, self.embedding.weight), labels)


# ---- what torchvision has ----


def vgg_features(name, _size):
    # As a child named "features", so that the state_dict has the names of the whole network.
    net = nn.Sequential()
    net.add_module("features", getattr(torchvision.models, name[: -len("-features")])().features)
    net.regression = True
    return net


def narrow_vgg(name, size):
    """torchvision's with other numbers of channels, which its own class does not take."""
    vgg = torchvision.models.vgg
    letter = {"vgg11": "A", "vgg13": "B", "vgg16": "D", "vgg19": "E"}[name.removesuffix("_bn")]
    layers = [layer if layer == "M" else size.channels(layer) for layer in vgg.cfgs[letter]]
    hidden = size.channels(4096)
    head = [nn.Linear(49 * layers[-2], hidden), nn.ReLU(), nn.Identity(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Identity()]
    net = nn.Sequential()
    net.add_module("features", vgg.make_layers(layers, batch_norm=name.endswith("_bn")))
    net.add_module("avgpool", nn.AdaptiveAvgPool2d(7))
    net.add_module("flatten", nn.Flatten())
    net.add_module("classifier", nn.Sequential(*head, nn.Linear(hidden, size.classes)))
    return net


def vit(size):
    heads = size.channels(12)
    if size.image[0] != size.image[1]:
        raise ValueError("torchvision's takes square images")
    net = torchvision.models.VisionTransformer(size.image[0], 16, 12, heads, HEAD * heads, 4 * HEAD * heads, num_classes=size.classes)
    nn.init.normal_(net.heads.head.weight, std=0.1)  # zeros would give zero gradients everywhere
    return net


def convnext(size):
    from torchvision.models.convnext import CNBlockConfig

    widths = [size.channels(c) for c in (96, 192, 384, 768)] + [None]
    setting = [CNBlockConfig(widths[i], widths[i + 1], n) for i, n in enumerate((3, 3, 9, 3))]
    net = torchvision.models.ConvNeXt(setting, stochastic_depth_prob=size.dropout, layer_scale=0.3, num_classes=size.classes)
    StochasticDepth.replace(net, size.dropout)
    return net


def densenet(name, size):
    growth, stem, blocks = {
        "densenet121": (32, 64, (6, 12, 24, 16)),
        "densenet161": (48, 96, (6, 12, 36, 24)),
        "densenet169": (32, 64, (6, 12, 32, 32)),
        "densenet201": (32, 64, (6, 12, 48, 32)),
    }[name]
    return torchvision.models.DenseNet(size.channels(growth), blocks, size.channels(stem), num_classes=size.classes)


def build(name, size):
    """The module of that name."""
    makers = {
        "mlp": mlp,
        "slide-s": slide_s,
        "darknet19": darknet19,
        "resnet1001": PreactResNet,
        "unet2d": lambda s: UNet(s, False),
        "unet3d": lambda s: UNet(s, True),
        "inception_v3": lambda s: InceptionV3(num_classes=s.classes, init_weights=True, dropout=0.0),
        "inception_v4": inception_v4,
        "bert-base": Bert,
        "bert-large": lambda s: Bert(s, 24, 16),
        "gpt2": Gpt2,
        "gpt2-medium": lambda s: Gpt2(s, 24, 16),
        "transformer": Transformer,
        "vit-b16": vit,
        "convnext-tiny": convnext,
    }
    if name in makers:
        return makers[name](size)
    if name.startswith("densenet"):
        return densenet(name, size)
    if name.endswith("-features"):
        return vgg_features(name, size)
    if name.startswith("vgg") and size.width != 1:
        return narrow_vgg(name, size)
    if size.width != 1:
        raise ValueError(f"torchvision's {name} has one width")
    net = getattr(torchvision.models, name)(num_classes=size.classes)
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return net
