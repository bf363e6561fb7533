#!/usr/bin/env python3
"""Training steps of the models of ../device.cpp in PyTorch on a GPU, float32 without TF32.

Each step copies a batch from pinned memory, and reads loss and accuracy back, as a step of
benchmark_device does. Variants: eager, compile (torch.compile, CUDA graphs). Prints a line for each.
"""

import time

import torch
from torch import nn

import torch_models
import torch_step

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def simple(name):
    model, shape = torch_step.MODELS[name]()
    return model, torch.rand(shape), torch.randint(10, (shape[0],))


def deep(name):
    model, _, x, y, _ = torch_models.MODELS[name]()
    return model, x, y


MODELS = {name: simple for name in torch_step.MODELS} | {"resnet": deep, "gpt": deep}


def make_step(name, variant):
    torch.manual_seed(1)
    model, x, y = MODELS[name](name)
    model, x, y = model.cuda(), x.pin_memory(), y.pin_memory()
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)

    def loss_of(batch, labels):
        predictions = model(batch)
        loss = loss_function(predictions, labels)
        return loss, (predictions.argmax(1) == labels).sum()

    if variant == "compile":
        loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss, right = loss_of(x.cuda(non_blocking=True), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        return torch.stack([loss.detach(), right.float()]).cpu()

    return step


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    for model_name in MODELS:
        for kind in "eager", "compile":
            run = make_step(model_name, kind)
            for _ in range(20):
                run()
            times = []
            for _ in range(15):
                begin = time.perf_counter()
                for _ in range(100):
                    run()
                times.append((time.perf_counter() - begin) * 10)
            times.sort()
            print(f"{model_name} {kind}: {times[7]:.4f} ms ({times[0]:.4f} to {times[-1]:.4f})", flush=True)
