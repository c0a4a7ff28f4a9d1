"""Trains a small network with Accelerate, as its launcher's options say."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


def main():
    """Trains and validates; every rank reports."""
    accelerator = Accelerator()
    x = torch.linspace(0, 1, 64).unsqueeze(1)
    batches = DataLoader(TensorDataset(x, torch.sin(3 * x)), batch_size=8, num_workers=2)
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    for epoch in range(2):
        for inputs, targets in tqdm(batches, disable=not accelerator.is_main_process):
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        total = accelerator.gather(loss.detach()).mean().item()
        if accelerator.is_main_process:
            print(f"epoch {epoch} loss {total:.4f}", flush=True)
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "model.pt")
    steps = accelerator.gradient_accumulation_steps
    rank, size, device = accelerator.process_index, accelerator.num_processes, accelerator.device.type
    print(f"\nrank {rank} of {size} on {device}, accumulates {steps}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
