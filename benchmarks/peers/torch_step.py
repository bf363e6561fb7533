#!/usr/bin/env python3
"""Training steps of the models in ../models.hpp in PyTorch on the CPU, on one batch over and over.

Prints a CSV line for each repetition: "step/MODEL/THREADS","VARIANT",milliseconds; of processor
time with one thread, which other programs disturb little. Variants: eager, channels_last, compile
(torch.compile, which needs a C++ compiler); not by default autocast (torch.autocast with bfloat16).

The environment should keep glibc from giving freed buffers back to the system in each step
(compare.sh does so): page faults cost PyTorch up to half of its time.
"""

import timing
import torch
from torch import nn


def cnn():
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(32 * 26 * 26, 128), nn.ReLU(inplace=True), nn.Linear(128, 10))
    return model, (64, 1, 28, 28)


def mlp():
    model = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, 10))
    return model, (128, 784)


def cifar():
    layers, channels = [], 3
    for filters in (32, 64, 128):
        layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        channels = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 4 * 128, 10)), (64, 3, 32, 32)


MODELS = {"cnn": cnn, "mlp": mlp, "cifar": cifar}


def make_step(name, variant, wrap=lambda model: model):
    torch.manual_seed(1)
    model, shape = MODELS[name]()
    x, y = torch.rand(shape), torch.randint(10, (shape[0],))
    if variant == "channels_last" and len(shape) == 4:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    model = wrap(model)
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)

    def loss_of(batch, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=variant == "autocast"):
            return loss_function(model(batch), labels)

    if variant == "compile":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()

    return step


def set_threads(threads):
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)


if __name__ == "__main__":
    timing.run(__doc__, "eager,channels_last,compile", set_threads, make_step,
               skips=lambda name, variant: name == "mlp" and variant == "channels_last")
