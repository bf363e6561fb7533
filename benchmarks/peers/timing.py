"""What the Python peers share: their options, and how a step is timed."""

import argparse
import time


def run(description, variants, set_threads, make_step, skips=lambda name, variant: False, models="cnn,mlp,cifar"):
    """Times make_step(model, variant)() and prints a CSV line for each repetition:
    "step/MODEL/THREADS","VARIANT",milliseconds; of processor time with one thread, which other
    programs disturb little."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", default=models)
    parser.add_argument("--variants", default=variants)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--min-time", type=float, default=0.1, help="seconds of a repetition")
    options = parser.parse_args()
    set_threads(options.threads)
    now = time.process_time if options.threads == 1 else time.perf_counter

    for name in options.models.split(","):
        for variant in options.variants.split(","):
            if skips(name, variant):
                continue
            step = make_step(name, variant)
            for _ in range(3):
                step()
            begin = now()
            for _ in range(3):
                step()
            steps = max(1, round(options.min_time * 3 / (now() - begin)))
            for _ in range(options.repetitions):
                begin = now()
                for _ in range(steps):
                    step()
                milliseconds = (now() - begin) / steps * 1e3
                print(f'"step/{name}/{options.threads}","{variant}",{milliseconds:.6g}', flush=True)
