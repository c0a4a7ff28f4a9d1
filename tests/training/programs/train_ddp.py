"""Trains a small network with DDP: data loaders with workers, validation, a checkpoint, a progress bar."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from tqdm import tqdm


class Waves(Dataset):
    """Points of a wave."""

    def __init__(self, size, seed):
        at = torch.rand(size, 1, generator=torch.Generator().manual_seed(seed))
        self.points = [(x, torch.sin(3 * x)) for x in at]

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.points[index]


def main():
    """Trains, validates and saves; rank 0 reports."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training, validation = Waves(64, seed=1), Waves(16, seed=2)
    sampler = DistributedSampler(training)
    batches = DataLoader(training, batch_size=8, sampler=sampler, num_workers=2)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in tqdm(batches, desc=f"epoch {epoch}", disable=rank > 0):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        total = torch.zeros(1)
        with torch.no_grad():
            for x, y in DataLoader(validation, batch_size=8, num_workers=2):
                total += nn.functional.mse_loss(model(x), y)
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} val_loss {total.item() / 8:.4f}", flush=True)
    checkpoint = Path(os.environ["BATCHAI_CHECKPOINT_DIR"], "model.pt")
    if rank == 0:
        torch.save(model.module.state_dict(), checkpoint)
    dist.barrier()
    saved = torch.load(checkpoint)
    print(f"\nrank {rank} of {dist.get_world_size()}, local {local}, read {len(saved)} tensors", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
