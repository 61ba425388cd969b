"""Groups of processes over MPI: what `rl.distributed` and `DistributedDataParallel` stand on."""
