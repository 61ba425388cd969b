"""A generative adversarial network of convolutions (Radford et al., 2016)."""

from seeded import fill, numbers

import rushlight as torch
import rushlight.nn as nn
import rushlight.optim as optim


class Generator(nn.Module):
    def __init__(self, nz=8, ngf=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, ndf=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 3, 1, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
        )

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("BatchNorm") != -1:
        nn.init.constant_(m.weight.data, 1.0)
        nn.init.constant_(m.bias.data, 0)


def train(device="cpu", steps=4):
    netG, netD = fill(Generator(), 1).to(device), fill(Discriminator(), 2).to(device)
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = optim.Adam(netD.parameters(), lr=0.002, betas=(0.5, 0.999), eps=1e-5)
    optimizerG = optim.Adam(netG.parameters(), lr=0.002, betas=(0.5, 0.999), eps=1e-5)
    losses = []
    for step in range(steps):
        netD.zero_grad()
        real = torch.from_numpy(numbers(8, 1, 8, 8, seed=step)).to(device)
        label = torch.full((8,), 1.0, dtype=torch.float, device=device)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        noise = torch.tensor(numbers(8, 8, 1, 1, seed=40 + step), device=device)
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        losses += [(errD_real + errD_fake).item(), errG.item()]
    return losses


if __name__ == "__main__":
    print(train())
