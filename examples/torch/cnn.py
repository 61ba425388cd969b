"""A small convolutional network that classifies images."""

from seeded import fill, integers, numbers

import rushlight as torch
import rushlight.nn as nn
from rushlight.optim import SGD
from rushlight.optim.lr_scheduler import StepLR
from rushlight.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding="same"),
            nn.ReLU(inplace=True),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(p=0.0), nn.Linear(16 * 16, 4))

    def forward(self, x):
        return self.classifier(self.features(x))


def train(device="cpu", steps=6):
    model = fill(Net()).to(device)
    data = TensorDataset(
        torch.from_numpy(numbers(48, 1, 16, 16, seed=50)),
        torch.from_numpy(integers(4, 48, seed=51)),
    )
    loader = DataLoader(data, batch_size=16, shuffle=False, drop_last=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    losses = []
    while len(losses) < steps:
        model.train()
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    model.eval()
    with torch.no_grad():
        right = 0
        for images, labels in loader:
            predicted = model(images.to(device)).argmax(dim=1)
            right += (predicted == labels.to(device)).sum().item()
    assert 0 <= right <= len(data)
    return losses[:steps]


if __name__ == "__main__":
    print(train())
