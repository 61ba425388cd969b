"""A U-Net (Ronneberger et al., 2015) that segments images."""

from seeded import fill, numbers

import rushlight as torch
import rushlight.nn as nn
import rushlight.nn.functional as F
from rushlight.optim import Adam


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(2, mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(2, out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diff_y = x2.size()[2] - x1.size()[2]
        diff_x = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(1, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 8))
        self.up1 = Up(16, 4, bilinear=True)
        self.up2 = Up(4, 4, bilinear=False)
        self.up2.conv = DoubleConv(6, 4)
        self.outc = nn.Conv2d(4, 1, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        return self.outc(self.up2(x, x1))


def dice_loss(pred, target, smooth=1.0):
    pred = pred.contiguous().flatten(1)
    target = target.contiguous().flatten(1)
    intersection = (pred * target).sum(dim=1)
    return (1 - (2.0 * intersection + smooth) / (pred.sum(1) + target.sum(1) + smooth)).mean()


def train(device="cpu", steps=4):
    model = fill(UNet()).to(device)
    optimizer = Adam(model.parameters(), lr=1e-3, eps=1e-4)
    losses = []
    for step in range(steps):
        images = torch.from_numpy(numbers(2, 1, 18, 14, seed=step)).to(device)
        masks = torch.where(images > 0, torch.ones_like(images), torch.zeros_like(images))
        logits = model(images)
        loss = F.binary_cross_entropy_with_logits(logits, masks)
        loss = loss + dice_loss(torch.sigmoid(logits), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(train())
