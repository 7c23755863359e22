"""Starts rank processes by hand, speaks their protocol (agent/src/rank/protocol.rs), harms them, and
says what they did. Called by .ci/h200-smoke; standard library only."""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.environ["RINGBREAKER"]
MS = 1_000_000
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv"]
failures = 0


def watchdog(mode="cleanup-only", op=2000):
    return {"init_timeout": 20_000 * MS, "first_op_timeout": 10_000 * MS, "op_timeout": op * MS,
            "error_handling": mode, "blocking_wait": False, "poll": 100 * MS, "dump_wait": 0}


def workload(collectives=("all_reduce",), dtype="f32", sizes=(1 << 20,), iterations=30, interval=0):
    return {"collectives": list(collectives), "dtype": dtype, "bytes": list(sizes), "warmup": 2,
            "iterations": iterations, "interval": interval * MS, "check": True}


class Rank:
    def __init__(self, job, rank):
        self.rank, self.words, self.said, self.ended, self.rest = rank, [], set(), None, b""
        spec = {"backend": "nccl", "rank": rank, "world": job.world, "workload": job.workload,
                "watchdog": job.watchdog, "announce": [job.announce], "nccl": job.nccl, "gpu": 0,
                "blackbox": None, "blackbox_ops": 4096}
        path = os.path.join(job.directory, f"rank{rank}.spec.json")
        with open(path, "w") as file:
            json.dump(spec, file)
        self.log = os.path.join(job.directory, f"rank{rank}.log")
        self.socket, theirs = socket.socketpair()
        env = dict(os.environ, NCCL_HOSTID=f"ringbreaker-{rank}", NCCL_SOCKET_IFNAME="lo",
                   NCCL_DEBUG="INFO", CUDA_MODULE_LOADING="LAZY",
                   NCCL_DEBUG_FILE=os.path.join(job.directory, f"rank{rank}.nccl.log"))
        end = theirs.fileno()
        with open(self.log, "w") as log:
            # The rank's end of the socket pair is descriptor 3.
            move = 'n=$1; shift; [ "$n" = 3 ] || eval "exec 3<&$n $n<&-"; exec "$@"'
            self.process = subprocess.Popen(
                ["bash", "-c", move, "bash", str(end), PROGRAM, "rank", "--spec", path],
                env=env, pass_fds=(end,), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        theirs.close()

    def say(self, what):
        try:
            self.socket.sendall(json.dumps(what).encode() + b"\n")
        except OSError:
            pass

    def hear(self):
        """What it said since; False: its socket is closed."""
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        self.rest += data
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            yield json.loads(line)
        if not data:
            yield None


class Job:
    """Two ranks on one GPU. `harm(job)` is called once, when rank 1 announces an iteration."""

    def __init__(self, nccl, workload, watchdog, harm=None, world=2, announce=10, patience=25):
        self.nccl, self.workload, self.watchdog, self.harm = nccl, workload, watchdog, harm
        self.world, self.announce, self.patience = world, announce, patience
        self.events, self.harmed, self.transport, self.stack = [], None, None, None

    def run(self):
        with tempfile.TemporaryDirectory(prefix="ringbreaker-smoke-") as self.directory:
            self.ranks = [Rank(self, rank) for rank in range(self.world)]
            try:
                self.converse()
            finally:
                self.left = [r.rank for r in self.ranks if r.process.poll() is None]
                for rank in self.ranks:
                    if rank.process.poll() is None:
                        rank.process.kill()
                    rank.status = rank.process.wait()
                    with open(rank.log) as log:
                        rank.printed = log.read()
        return self

    def converse(self):
        selector = selectors.DefaultSelector()
        for rank in self.ranks:
            selector.register(rank.socket, selectors.EVENT_READ, rank)
        end = time.monotonic() + self.patience
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                for word in key.data.hear():
                    if word is None:
                        selector.unregister(key.fileobj)
                    else:
                        self.heard(key.data, word)
        for rank in self.ranks:
            try:
                rank.process.wait(max(0.1, min(10, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                pass

    def heard(self, rank, word):
        kind, content = (word, None) if isinstance(word, str) else next(iter(word.items()))
        if kind == "observed":
            self.observed(rank, content)
            return
        rank.said.add(kind)
        everybody = all(kind in other.said for other in self.ranks)
        if kind == "ready" and everybody:
            self.ranks[0].say("make-id")
        elif kind == "id":
            for other in self.ranks:
                other.say({"init": {"id": content["id"]}})
        elif kind == "warmed-up" and everybody:
            for other in self.ranks:
                other.say("go")

    def observed(self, rank, event):
        what = event["what"]
        name, body = (what, {}) if isinstance(what, str) else next(iter(what.items()))
        self.events.append((event["at"], rank.rank, name, body))
        if name == "stack":
            self.stack = body["versions"]
        if name == "transport":
            self.transport = body["name"]
        if name == "iteration-reached" and rank.rank == 1 and self.harm and not self.harmed:
            self.harmed = time.monotonic_ns()
            self.harm(self)

    def of(self, name, rank=None):
        return [e for e in self.events if e[2] == name and rank in (None, e[1])]

    def tell(self):
        """One line a rank."""
        for rank in self.ranks:
            words = []
            for at, _, name, body in [e for e in self.events if e[1] == rank.rank]:
                after = f"+{(at - self.harmed) / 1e6:.0f}ms " if self.harmed else ""
                if name == "detected":
                    words.append(f"{after}{body['detector']} {body['code']} in {body['phase']}: {body['message']}")
                elif name in ("abort-began", "abort-ended", "wrong-data"):
                    words.append(f"{after}{name} {body or ''}")
            ended = "still there, killed" if rank.rank in self.left else f"status {rank.status}"
            print(f"    rank {rank.rank}: {'; '.join(words) or 'nothing noticed'}; {ended}")
            if rank.printed.strip():
                print("      printed: " + rank.printed.strip()[-300:].replace("\n", " | "))


def case(name, job, *wishes):
    """Runs it; each wish is a sentence and whether it came true."""
    global failures
    began = time.monotonic()
    job.run()
    broken = [sentence for sentence, holds in wishes if not holds(job)]
    print(f"{'ok  ' if not broken else 'FAIL'} {name} ({time.monotonic() - began:.1f} s)", flush=True)
    for sentence in broken:
        failures += 1
        print(f"    expected: {sentence}")
    if broken or job.harm:
        job.tell()


CLEAN = ("both ranks finish and notice nothing",
         lambda job: all(r.status == 0 for r in job.ranks) and not job.of("detected"))


def noticed(detector, code=None):
    return (f"rank 0 notices by {detector}" + (f" with code {code}" if code else ""),
            lambda job: any(e[3]["detector"] == detector and code in (None, e[3]["code"])
                            for e in job.of("detected", 0)))


def ends(status):
    return (f"rank 0 ends by itself with {status}",
            lambda job: job.ranks[0].status == status and 0 not in job.left)


def send(number):
    return lambda job: job.ranks[1].process.send_signal(number)


def clean(nccl):
    job = Job(nccl, workload(), watchdog())
    over_sockets = ("the transport is NET/Socket", lambda job: job.transport == "NET/Socket")
    case("all_reduce of 1 MiB", job, CLEAN, over_sockets)
    print(f"    {job.stack}")
    for dtype in ["f32", "f16", "bf16", "i32"]:
        sizes = (8, 1 << 20, 16 << 20) if dtype == "f32" else (8, 1 << 20)
        case(f"every collective in {dtype}",
             Job(nccl, workload(ALL, dtype, sizes, 7 * len(sizes)), watchdog()), CLEAN)


def faults(nccl):
    # The pause keeps the harm between operations less often than in one; both are real.
    long = workload(iterations=400, interval=2)
    for mode, wishes in {
        "cleanup-only": [ends(3)], "teardown": [ends(-signal.SIGABRT)],
        "skip-cleanup": [ends(-signal.SIGABRT)], "none": [],
    }.items():
        patience = 10 if wishes else 6
        job = Job(nccl, long, watchdog(mode), send(signal.SIGKILL), patience=patience)
        case(f"rank 1 is killed, error_handling {mode}", job, *wishes,
             ("rank 0 notices within 2.5 s", lambda job: job.of("detected", 0)))
    job = Job(nccl, long, watchdog("cleanup-only"), send(signal.SIGSTOP), patience=10)
    case("rank 1 is stopped", job, noticed("rank-watchdog"), ends(3))


def full_gpu(nccl):
    """All but 64 MiB of the GPU is held before the communicator is created."""
    holder = subprocess.Popen([PROGRAM, "hold-gpu-memory"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    heard = [holder.stdout.readline().strip()]

    def order(words):
        print(words, file=holder.stdin, flush=True)
        heard.append(holder.stdout.readline().strip())

    class Squeezed(Job):
        def heard(self, rank, word):
            if word == "ready" and all("ready" in r.said for r in self.ranks if r is not rank):
                order(f"hold 0 {64 << 20}")
                order("free")
            super().heard(rank, word)

    try:
        job = Squeezed(nccl, workload(), watchdog(), patience=15)
        case("64 MiB of GPU memory are free", job,
             ("a rank meets code 1", lambda job: any(e[3]["code"] == 1 for e in job.of("detected"))))
        print(f"    the holder said {heard}")
        job.tell()
    finally:
        holder.stdin.close()
        holder.wait(10)


def main():
    probe = json.loads(subprocess.run([PROGRAM, "probe", "--format", "json"], check=True,
                                      capture_output=True).stdout)
    print("gpus:", json.dumps(probe["gpus"]))
    print("nccl:", json.dumps(probe["nccl"]))
    copies = sys.argv[1:] or [library["path"] for library in probe["nccl"]]
    if not copies:
        sys.exit("h200-smoke: no libnccl.so.2 was found; name one")
    for place, nccl in enumerate(copies):
        print(f"== {nccl}", flush=True)
        clean(nccl)
        faults(nccl)
        if place == 0:
            full_gpu(nccl)
    print("everything was as expected" if not failures else f"{failures} expectations were not met")
    sys.exit(1 if failures else 0)


main()
