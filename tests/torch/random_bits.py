"""Outsize's random numbers in NumPy, and dropout in PyTorch that uses them: a check that a network with dropout is the network
that was meant, mask by mask.

Philox4x32-10 (Salmon et al. 2011): the key is the seed, the counter (index / 4, low and high; stream; step), word index % 4.
"""

import numpy as np
import torch
from torch import nn

SEED, STEP = 0, 0  # of the run compared with; STEP is set before each step


def set_step(step):
    global STEP
    STEP = step


def philox(counter, key):
    """Ten rounds over arrays of 32-bit words (held in 64 bits)."""
    c, (k0, k1) = [np.asarray(word, np.uint64) for word in counter], key
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        high_a, low_a, high_b, low_b = a >> np.uint64(32), a & mask, b >> np.uint64(32), b & mask
        c = [high_b ^ c[1] ^ np.uint64(k0), low_b, high_a ^ c[3] ^ np.uint64(k1), low_a]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def kept(count, rate, stream):
    """Which of so many elements are kept."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    ones = np.ones_like(blocks)
    counter = [blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), ones * np.uint64(stream), ones * np.uint64(STEP)]
    words = np.stack(philox(counter, (SEED & 0xFFFFFFFF, SEED >> 32)), 1).reshape(-1)[:count]
    return torch.from_numpy(words.astype(np.float64) * 2.0**-32 >= rate)


class Dropout:
    """Hands out the streams of one forward pass in the order of its dropouts."""

    def __init__(self, rate):
        self.rate, self.stream = rate, 0

    @staticmethod
    def counter(rate):
        return lambda: Dropout(rate)

    def __call__(self, x):
        if self.rate == 0:
            return x
        mask = kept(x.numel(), self.rate, self.stream).view(x.shape).to(x.dtype)
        self.stream += 1
        return x * mask / (1 - self.rate)


class StochasticDepth(nn.Module):
    """Drops whole samples."""

    def __init__(self, rate, stream):
        super().__init__()
        self.rate, self.stream = rate, stream

    def forward(self, x):
        mask = kept(x.shape[0], self.rate, self.stream).to(x.dtype)
        return x * mask.view(-1, *[1] * (x.dim() - 1)) / (1 - self.rate)

    @staticmethod
    def replace(net, rate):
        """Every stochastic depth of a network, in order, with one rate (Outsize's --dropout); 0 removes them."""
        stream = 0
        for module in net.modules():
            if hasattr(module, "stochastic_depth"):
                module.stochastic_depth = StochasticDepth(rate, stream) if rate else nn.Identity()
                stream += 1
