#!/usr/bin/env python3
"""PyTorch's training step on the card, as a user would run it: TF32, channels-last, cudnn.benchmark; forward, loss, backward.

torch_peer.py MODEL BATCH SIZE [compile] [dropout=P]
MODEL: a name of torchvision, vgg16-features, unet3d, bert-large or gpt2; SIZE: the side of an image or volume, or the tokens of a text.
The language models call scaled_dot_product_attention, which takes the fastest kernel that PyTorch has."""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True


class Language(nn.Module):
    """BERT with its masked language model head, or GPT-2."""

    def __init__(self, words, width, layers, tokens, gpt, dropout):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.first, self.last, self.drop = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout, F.gelu, batch_first=True, norm_first=gpt) for _ in range(layers))
        self.transform = None if gpt else nn.Linear(width, width)
        self.mask = nn.Transformer.generate_square_subsequent_mask(tokens).cuda() if gpt else None

    def forward(self, tokens):
        x = self.words(tokens) + self.places
        x = self.drop(x if self.mask is not None else self.first(x))
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=self.mask is not None)
        if self.transform is not None:
            x = F.gelu(self.transform(x))
        return F.linear(self.last(x), self.words.weight)


def make(name, batch, size, dropout):
    """The model, its input, and its loss of input and labels."""
    if name in ("bert-large", "gpt2"):
        words, width, layers = (30522, 1024, 24) if name == "bert-large" else (50257, 768, 12)
        x = torch.randint(0, words, (batch, size), device="cuda")
        model = Language(words, width, layers, size, name == "gpt2", dropout).cuda()
        return model, x, x.roll(1, 1), lambda out, y: F.cross_entropy(out.flatten(0, 1), y.flatten())
    if name == "unet3d":
        import models  # the definitions that the tests compare with
        model = models.UNet(models.Size(classes=3), True).cuda().to(memory_format=torch.channels_last_3d)
        x = torch.randn(batch, 1, size, size, size, device="cuda").to(memory_format=torch.channels_last_3d)
        return model, x, torch.randint(0, 3, (batch, size, size, size), device="cuda"), F.cross_entropy
    import torchvision
    features = name == "vgg16-features"
    model = torchvision.models.vgg16().features if features else getattr(torchvision.models, name)()
    x = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device="cuda")
    loss = (lambda out, _: out.square().mean()) if features else F.cross_entropy
    return model.cuda().to(memory_format=torch.channels_last), x, y, loss


def main():
    name, batch, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dropout = next((float(word.split("=")[1]) for word in sys.argv if word.startswith("dropout=")), 0.0)
    model, x, y, loss = make(name, batch, size, dropout)
    model.train()

    def loss_of(x, y):
        return loss(model(x), y)

    run = torch.compile(loss_of) if "compile" in sys.argv else loss_of
    times = []
    for i in range(13):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for parameter in model.parameters():
            parameter.grad = None
        run(x, y).backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    step = sorted(times[3:])[len(times[3:]) // 2]
    how = (" compiled" if "compile" in sys.argv else "") + (f" dropout {dropout}" if dropout else "")
    print(f"torch {torch.__version__} {name} {batch} x {size}{how}: {1e3 * step:.2f} ms, "
          f"{batch / step:.1f} a second, {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)


main()
