#!/usr/bin/env python3
"""PyTorch's training step on the card, as a user would run it: TF32, channels-last, cudnn.benchmark; forward, loss, backward.

torch_peer.py MODEL BATCH SIZE [compile]   MODEL: a name of torchvision, or vgg16-features"""
import sys
import time

import torch
import torchvision

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True


def main():
    name, batch, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    features = name == "vgg16-features"
    model = torchvision.models.vgg16().features if features else getattr(torchvision.models, name)()
    model = model.cuda().to(memory_format=torch.channels_last).train()
    x = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device="cuda")

    def loss_of(x):
        out = model(x)
        return out.square().mean() if features else torch.nn.functional.cross_entropy(out, y)

    run = torch.compile(loss_of) if "compile" in sys.argv else loss_of
    times = []
    for i in range(13):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for parameter in model.parameters():
            parameter.grad = None
        run(x).backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    step = sorted(times[3:])[len(times[3:]) // 2]
    print(f"torch {torch.__version__} {name} {batch} x {size}{' compiled' if 'compile' in sys.argv else ''}: {1e3 * step:.2f} ms, "
          f"{batch / step:.1f} a second, {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")


main()
