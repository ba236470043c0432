"""Weights, gradients and optimizer states that do not fit on the card: the planner `stream` beside holding everything."""
from cells import TINY, apart, exact, gib, refused, train

# Arguments, budget, the most seconds of a step, and what PyTorch's FSDP2 with offloading takes (measured earlier on an H200).
WORK = (
    ("gpt2-xl --batch 4 --seq 1024", "12GiB", 0.45, "1.195 s in 5.4 GiB, 0.323 s in memory"),
    ("gpt2-xl --batch 4 --seq 1024", "5GiB", 0.65, "1.195 s in 5.4 GiB"),
    ("gpt2-medium --batch 2 --seq 1024", "2GiB", 0.305, "0.305 s in 2.2 GiB, 0.072 s in memory"),
)
TINY_WORK = (("gpt2 --batch 1 --seq 16 --width 0.084 --classes 50", "60%", 1.0, "not measured"),)


def weights(stage):
    met = 0
    work = TINY_WORK if TINY else WORK
    for model, memory, most, peer in work:
        step = f"{model} --optimizer adamw --lr 1e-4 --dropout 0 --steps {2 if TINY else 4}"
        keep = stage.cell(f"{model} keep", lambda seconds: train(step, seconds, 150), 10)
        found = stage.cell(f"{model} {memory}", lambda seconds: train(
            f"{step} --planner stream --memory {memory} --host-memory {'1GiB' if TINY else '100GiB'} --advice 0", seconds, 200), 10)
        for name, it in (("keep", keep), (memory, found)):
            if it and "error" in it:
                stage.say(f"{model} {name}: {'refused' if refused(it) else 'FAILED'}: {it['error'][:200]}")
                stage.expect(False, f"{model} {name}")
        if not keep or not found or "error" in keep or "error" in found:
            continue
        seconds = found["measured_step_s"]
        same = found["params_sha256"] == keep["params_sha256"]
        # Where the head goes tile by tile, what comes of it is equal to rounding.
        near = apart(found["losses"], keep["losses"])
        stage.expect(exact(found), f"{model} {memory}: peak not as predicted")
        stage.expect(same or (found.get("rounding", found.get("tiles", 0) > 0) and near <= 1e-3), f"{model} {memory}: other results than keep's")
        if not TINY:
            stage.expect(seconds <= most, f"{model} {memory}: {seconds:.3f} s, more than {most}")
        met += seconds <= most
        stage.say(f"{model} {memory}: {seconds:.3f} s a step (bar: {most}), {seconds / keep['measured_step_s']:.2f} x keep's {keep['measured_step_s']:.3f} s in "
                  f"{gib(keep['measured_peak_bytes'])}; predicted {found['predicted_step_s']:.3f} s; peak {gib(found['measured_peak_bytes'])}, host "
                  f"{gib(found['host_bytes'])}, {'the same bits' if same else f'losses {near:.0e} apart'}; PyTorch with FSDP2: {peer}")
    return f"{met} of {len(work)} within their bars"
