#!/usr/bin/env python3
"""Trains ResNet-20 in PyTorch by the recipe of ../model_accuracy.sh resnet.

torch_resnet.py CIFAR_FOLDER [SEED...]

30 epochs of batches of 128 without the rest; SGD 0.1, momentum 0.9, weight decay 1e-4; the rate a
tenth after 2/3 and 9/10 of the epochs; crop after padding by 4, and flip; normalised channels; He
normal for convolutions. Prints a Markdown row for each seed.
"""

import pathlib
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import torch_models

EPOCHS, BATCH = 30, 128


def read(files):
    records = numpy.concatenate([numpy.fromfile(file, numpy.uint8) for file in files]).reshape(-1, 3073)
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32) / numpy.float32(255)), torch.from_numpy(records[:, 0]).long()


def augmented(images):
    padded = F.pad(images, (4, 4, 4, 4))
    rows, columns = torch.randint(9, (2, len(images)))
    cropped = torch.stack([image[:, r:r + 32, c:c + 32] for image, r, c in zip(padded, rows, columns)])
    return torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, cropped.flip(3), cropped)


def train(seed, images, labels, test_images, test_labels):
    torch.manual_seed(seed)
    model = torch_models.resnet()[0].to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [EPOCHS * 2 // 3, EPOCHS * 9 // 10])
    for _ in range(EPOCHS):
        losses = []
        for chosen in torch.randperm(len(images)).split(BATCH):
            if len(chosen) < BATCH:
                break
            optimizer.zero_grad()
            loss = F.cross_entropy(model(augmented(images[chosen])), labels[chosen])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
    return sum(losses) / len(losses), accuracy


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    training = sorted(folder.glob("data_batch_*.bin")) or [folder / "train.bin"]
    images, labels = read(training)
    mean, deviation = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    test_images, test_labels = read([folder / "test_batch.bin"])
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation
    for seed in sys.argv[2:] or "12345":
        loss, accuracy = train(int(seed), images, labels, test_images, test_labels)
        print(f"| PyTorch, seed {seed} | loss={loss:.6f} val_accuracy={accuracy:.4f} |", flush=True)


main()
