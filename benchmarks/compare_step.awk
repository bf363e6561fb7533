# The table of `compare.sh step`, with compare_table.awk. Exit code as that of compare.sh.

END {
  torch = "PyTorch eager|PyTorch channels_last|PyTorch compile"
  python = torch "|TensorFlow function|TensorFlow xla"
  title["cnn"] = "tutorial CNN"
  title["mlp"] = "MLP"
  title["cifar"] = "CIFAR CNN"

  print_header("ms")
  row("tutorial CNN, 1 thread: oneDNN", "lockstep", "step/cnn/1", "oneDNN", "step/cnn/1", 0.90, "oneDNN")
  row("tutorial CNN, 1 thread: best of PyTorch and TensorFlow", "lockstep", "step/cnn/1", python, "step/cnn/1", 0.45, "PyTorch")

  limit_row("tutorial CNN", "step/cnn/1", 1.75)

  row("tutorial CNN, 2 threads: own 1 thread", "lockstep", "step/cnn/2", "lockstep", "step/cnn/1", 0.60)
  for (m = split("mlp cifar", models, " "); m > 0; --m)
    for (threads = 1; threads <= 2; ++threads) {
      name = "step/" models[3 - m] "/" threads
      row(title[models[3 - m]] ", " threads " thread" (threads > 1 ? "s" : "") ": best of oneDNN, PyTorch and TensorFlow", "lockstep", name, "oneDNN|" python, name, 1.00,
          "oneDNN|PyTorch")
    }
  for (m = split("cnn mlp cifar", models, " "); m > 0; --m) {
    name = "step/" models[4 - m] "/1"
    row("generic build, " title[models[4 - m]] ", 1 thread: -march=native build", "lockstep", name, "native", name, 1.10, "native")
  }
  for (m = split("cnn mlp cifar", models, " "); m > 0; --m)
    for (threads = 1; threads <= 2; ++threads) {
      name = models[4 - m] "/" threads
      row("loop of the program's own, " title[models[4 - m]] ", " threads " thread" (threads > 1 ? "s" : "") ": fit", "lockstep", "loop/" name, "lockstep", "step/" name, 1.03)
    }
  exit exit_code()
}
