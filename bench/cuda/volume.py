#!/usr/bin/env python3
"""The 3-D U-Net that speeds are compared by: three levels of two convolutions with batch norm, 32 channels in the first and twice as
many in each further one, 1 channel in, 3 classes out. (The zoo's unet3d doubles its channels within each level and has a level more.)

volume.py SIDE [FIRST]: the graph file of one volume of SIDE³, for `outsize train FILE.graph`."""
import math
import sys

LEVELS, CLASSES = 3, 3


def graph(side, first=32):
    """The net as a graph file."""
    values, ops = [], []
    spatial = lambda level: ", ".join([str(side >> level)] * 3)

    def parameter(name, shape, init):
        values.append(f"param {name} f32[{', '.join(map(str, shape))}] init={init}")

    def block(name, x, inputs, channels):
        for i, c in ((1, inputs), (2, channels)):
            parameter(f"{name}.conv{i}.weight", (channels, c, 3, 3, 3), f"normal:{math.sqrt(2 / (27 * channels)):.6g}")
            parameter(f"{name}.bn{i}.weight", (channels,), "ones")
            parameter(f"{name}.bn{i}.bias", (channels,), "zeros")
            values.append(f"state {name}.bn{i}.running_mean f32[{channels}] init=zeros")
            values.append(f"state {name}.bn{i}.running_var f32[{channels}] init=ones")
            y, n = f"{name}.y{i}", f"{name}.bn{i}"
            ops.append(f"{name}.conv{i}: {y} = conv3d({x}, {name}.conv{i}.weight) padding=[1, 1, 1, 1, 1, 1]")
            ops.append(f"{n}.stats: {n}.stats = batch_norm_stats({y})")
            ops.append(f"{n}.finalize: {n}.moments = batch_norm_finalize({n}.stats)")
            ops.append(f"{n}.update: {n}.mean.next, {n}.var.next = batch_norm_update({n}.running_mean, {n}.running_var, {n}.stats)")
            ops.append(f"{n}: {n}.y = batch_norm_apply({y}, {n}.moments, {n}.weight, {n}.bias)")
            x = f"{name}.z{i}"
            ops.append(f"{name}.relu{i}: {x} = relu({n}.y)")
        return x

    x, inputs, down = "x", 1, []
    for level in range(LEVELS):
        if level > 0:
            ops.append(f"pool{level}: p{level} = max_pool({x}) kernel=[2, 2, 2] stride=[2, 2, 2]")
            x = f"p{level}"
        x = block(f"down{level}", x, inputs, first << level)
        down.append(x)
        inputs = first << level
    for level in reversed(range(LEVELS - 1)):
        channels = first << level
        parameter(f"up{level}.weight", (inputs, channels, 2, 2, 2), f"normal:{math.sqrt(2 / (8 * inputs)):.6g}")
        parameter(f"up{level}.bias", (channels,), "zeros")
        ops.append(f"up{level}: u{level} = conv_transpose3d({x}, up{level}.weight, up{level}.bias) stride=[2, 2, 2]")
        ops.append(f"concat{level}: c{level} = concat({down[level]}, u{level}) axis=1")
        x = block(f"merge{level}", f"c{level}", 2 * channels, channels)
        inputs = channels
    parameter("head.weight", (CLASSES, inputs, 1, 1, 1), f"normal:{math.sqrt(2 / CLASSES):.6g}")
    parameter("head.bias", (CLASSES,), "zeros")
    ops.append(f"head: logits = conv3d({x}, head.weight, head.bias)")
    ops.append("loss: loss = softmax_cross_entropy(logits, labels)")
    head = [f"graph volume{side}", f"input x f32[1, 1, {spatial(0)}]", f"input labels i32.plain[1, {spatial(0)}]"]
    return "\n".join(head + values + ops + ["output loss"]) + "\n"


def module(first=32):
    """The same net for PyTorch."""
    import torch
    from torch import nn

    def block(inputs, channels):
        layers = []
        for c in (inputs, channels):
            layers += [nn.Conv3d(c, channels, 3, padding=1, bias=False), nn.BatchNorm3d(channels), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    class Volume(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [first << level for level in range(LEVELS)]
            self.down = nn.ModuleList(block(i, o) for i, o in zip([1] + widths, widths))
            self.up = nn.ModuleList(nn.ConvTranspose3d(2 * c, c, 2, 2) for c in widths[:-1])
            self.merge = nn.ModuleList(block(2 * c, c) for c in widths[:-1])
            self.pool, self.head = nn.MaxPool3d(2), nn.Conv3d(first, CLASSES, 1)

        def forward(self, x):
            maps = []
            for level, down in enumerate(self.down):
                x = down(x if level == 0 else self.pool(x))
                maps.append(x)
            for level in reversed(range(LEVELS - 1)):
                x = self.merge[level](torch.cat([maps[level], self.up[level](x)], 1))
            return self.head(x)

    return Volume()


if __name__ == "__main__":
    print(graph(*map(int, sys.argv[1:3])), end="")
