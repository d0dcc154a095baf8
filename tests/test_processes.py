"""Several processes on this machine: what they do together, and what becomes of one when another is gone."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import xpr
from tests import processes
from tests.processes import ROOT, all_well, environment, run, start, wait
from xpr.api.clusters import Cluster, detected, first_node
from xpr.backend.links import free_port
from xpr.backend.relay import Relay

# -- What they do together


def test_arrays():
    all_well(run("arrays", 2, devices=2))


def test_the_current_mesh():
    all_well(run("current_mesh", 2, devices=2))


def test_callbacks():
    all_well(run("callbacks", 2, devices=2))


def test_pmap():
    all_well(run("pmaps", 2, devices=2))


def test_pmap_that_is_traced():
    all_well(run("traced_pmaps", 2, devices=2))


def test_four_processes():
    all_well(run("utilities", 4))


def test_preemption():
    all_well(run("preempted", 2))


def test_different_programs():
    all_well(run("programs", 2))


def test_strangers_are_not_listened_to():
    port = free_port("127.0.0.1")
    first = start("together", 0, 2, f"127.0.0.1:{port}")
    for words in (b"GET / HTTP/1.1\r\n\r\n", b'{"index": "x"}\n', b'{"index": 1}\n', b"[]\n", b""):
        for _ in range(300):
            try:
                with socket.create_connection(("127.0.0.1", port)) as stranger:
                    stranger.sendall(words)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
    all_well(wait([first, start("together", 1, 2, f"127.0.0.1:{port}")]))


# -- What goes wrong


@pytest.mark.parametrize("case", ["not_together", "ends_early", "ends_first", "after_shutdown", "not_used"])
def test_of_two(case):
    all_well(run(case, 2))


@pytest.mark.parametrize(
    ("case", "count", "victim", "code"),
    [
        ("killed", 3, 1, -signal.SIGKILL),
        ("coordinator_killed", 3, 0, -signal.SIGKILL),
        ("killed_at_first", 2, 0, 1),
        ("killed_while_joining", 2, 1, 1),
        ("raised", 2, 1, 1),
    ],
)
def test_one_dies(case, count, victim, code):
    ended = run(case, count, devices=2)
    assert ended.pop(victim).code == code
    all_well(ended)


def test_one_does_not_come():
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    all_well(wait([start("missing", i, 3, address) for i in (0, 1)]))
    all_well(wait([start("alone", 1, 2, f"127.0.0.1:{free_port('127.0.0.1')}")]))


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        ([(0, 3), (1, 3), (1, 3)], "two processes were told that they are process 1"),
        ([(0, 2), (1, 3)], "process 1 was told that there are 3 processes, and process 0 that there are 2"),
    ],
)
def test_processes_that_disagree(configured, message, monkeypatch):
    monkeypatch.setattr(processes, "environment", lambda **more: environment(SAID=message, **more))
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    ended = wait([start("disagreeing", index, count, address) for index, count in configured])
    all_well(ended)


@pytest.fixture
def cable():
    """Two network namespaces with a cable between; gives the commands that run something in each."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("cutting a process off takes root's rights and iproute2")
    names = [f"xpr{os.getpid()}{side}" for side in "ab"]
    steps = [
        *[f"netns add {name}" for name in names],
        f"-n {names[0]} link add cable type veth peer name cable netns {names[1]}",
        *[f"-n {name} addr add 10.77.0.{i + 1}/24 dev cable" for i, name in enumerate(names)],
        *[f"-n {name} link set {device} up" for name in names for device in ("lo", "cable")],
    ]
    try:
        for step in steps:
            done = subprocess.run(["ip", *step.split()], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"there are no network namespaces here: ip {step}: {done.stderr.strip()}")
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def test_a_relay_stays_open_when_the_remote_side_is_gone():
    """NOTE [XLA ends the process], where it sends anything else then."""
    with socket.create_server(("127.0.0.1", 0)) as service:
        relay = Relay(service.getsockname())
        host, port = relay.address.split(":")
        with socket.create_connection((host, int(port))) as link, service.accept()[0] as remote:
            socket.create_connection((host, int(port))).close()  # a later one
            link.sendall(b"question")
            assert remote.recv(8) == b"question"
            remote.sendall(b"answer")
            assert link.recv(6) == b"answer"
            remote.close()
            link.settimeout(0.1)
            for _ in range(5):
                link.sendall(b"more")
                with pytest.raises(TimeoutError):
                    link.recv(1)
        relay.close()


def test_one_is_cut_off(cable):
    """By a cable that is pulled: no connection is closed, there is only silence."""
    started = [start("cut_off", i, 2, "10.77.0.1:7357", before=before) for i, before in enumerate(cable)]
    try:
        for each in started:
            read = iter(each.stdout.readline, "")
            assert any(text == "together\n" for text in read)
        time.sleep(0.3)
        subprocess.run(["ip", "-n", cable[1][-1], "link", "set", "cable", "down"], check=True)
        all_well(wait(started))
    finally:
        wait(started, 1)


# -- Starting them

GIVEN = {"coordinator_address": "host:99", "num_processes": 2, "process_id": 0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "coordinator_address and num_processes and process_id are not given, and no launcher says them"),
        ({"num_processes": 2, "process_id": 0}, "coordinator_address is not given, and no launcher says it"),
        ({**GIVEN, "coordinator_address": "here"}, "'here' is no address; it has a host and a port, like '10.0.0.1"),
        ({**GIVEN, "coordinator_address": "h:99999"}, "'h:99999' is no address"),
        ({**GIVEN, "process_id": 2}, "process_id=2 of num_processes=2 makes no sense"),
        ({**GIVEN, "num_processes": 0}, "process_id=0 of num_processes=0 makes no sense"),
        ({"cluster_detection_method": "pbs"}, "There is no cluster_detection_method 'pbs'; there are environment, "),
        ({**GIVEN, "heartbeat_timeout_seconds": 0}, "heartbeat_timeout_seconds=0 is no time"),
        ({**GIVEN, "local_device_ids": "x"}, "local_device_ids are numbers of GPUs, from 0, and are 'x'"),
        ({**GIVEN, "coordinator_bind_address": "9"}, "coordinator_bind_address='9' is no address"),
    ],
)  # fmt: skip
def test_arguments(options, message, monkeypatch):
    for name in [name for name in os.environ if name.startswith(processes.KEPT_OUT)]:
        monkeypatch.delenv(name)
    with pytest.raises(ValueError, match="distributed.initialize|cluster_detection") as raised:
        xpr.distributed.initialize(**options)
    assert message in str(raised.value)


def test_the_port_is_taken(monkeypatch):
    monkeypatch.setattr("xpr.api.distributed.devices.in_use", list)
    with pytest.raises(xpr.errors.MissingProcess, match="process 0 can't listen at 203.0.113.9:1234"):
        xpr.distributed.initialize("203.0.113.9:1234", 2, 0, coordinator_bind_address="203.0.113.9:1234")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(xpr.errors.MissingProcess, match=f"can't listen at {address}: .* and only once"):
            xpr.distributed.initialize(address, 2, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "process 0 at {address} ended before all had come, or is no process of xpr"),
        (b"HTTP/1.1 400 Bad Request\n", "process 0 at {address} ended before all had come, or is no process of xpr"),
        (b'{"doors": [["127.0.0.1", 1], ["127.0.0.1", 1], ["127.0.0.1", 1]], "token": "t", "service": 1}\n',
         "process 2 could not reach this one at 127.0.0.1:"),
    ],
)  # fmt: skip
def test_what_another_program_answers(answer, message, monkeypatch):
    monkeypatch.setattr("xpr.api.distributed.devices.in_use", list)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            link, _ = server.accept()
            with link:
                link.recv(1000)
                link.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(xpr.errors.MissingProcess) as raised:
            xpr.distributed.initialize(address, 3, 1, initialization_timeout=1)
        thread.join()
    assert message.format(address=address) in str(raised.value)


def test_one_process_is_as_without(monkeypatch):
    monkeypatch.setattr("xpr.api.distributed.devices.in_use", list)
    xpr.distributed.initialize("localhost:1", 1, 0)
    assert not xpr.distributed.is_initialized()
    monkeypatch.undo()
    xpr.device_count("cpu")
    with pytest.raises(RuntimeError, match="comes too late: something was computed already, or devices were asked for"):
        xpr.distributed.initialize("localhost:1", 1, 0)


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"XPR_COORDINATOR_ADDRESS": "a:1", "XPR_NUM_PROCESSES": "4", "XPR_PROCESS_ID": "3"},
         ("environment", Cluster("a:1", 4, 3))),
        ({"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_PROCESS_ID": "0", "JAX_LOCAL_DEVICE_IDS": "1,2"},
         ("environment", Cluster("a:1", None, 0, [1, 2]))),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "8", "SLURM_PROCID": "5", "SLURM_LOCALID": "1",
          "SLURM_STEP_NODELIST": "gpu[003-006,9],login"}, ("slurm", Cluster("gpu003:20487", 8, 5, [1]))),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "5"}, None),
        ({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
          "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"},
         ("openmpi", Cluster("10.96.0.1:33908", 4, 2, [0]))),
    ],
)  # fmt: skip
def test_launchers(environ, found):
    assert detected(environ) == found


def test_launchers_that_say_nonsense():
    with pytest.raises(ValueError, match="XPR_NUM_PROCESSES is a number of processes, or of one, and not 'two'"):
        detected({"XPR_NUM_PROCESSES": "two"})
    assert detected({"XPR_PROCESS_ID": "1"}, "slurm") is None
    assert [first_node(text) for text in ("a", "a,b", "n[1-2]", "n[07,9]x", "a1,b[2-3]")] == [
        "a",
        "a",
        "n1",
        "n07x",
        "a1",
    ]


def launch(tmp_path, script, *options, **keywords):
    (tmp_path / "script.py").write_text(script)
    command = [sys.executable, "-m", "xpr.launch", *options, str(tmp_path / "script.py"), "-a", "b c"]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **keywords
    )


def test_launch(tmp_path):
    names = "XPR_PROCESS_ID", "XPR_NUM_PROCESSES", "XPR_NUM_CPU_DEVICES"
    script = f"""
import os, sys
print(sys.argv[1:], *map(os.environ.get, {names}))
print("[Gloo] Rank 1 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3")
sys.stderr.write("e")
"""
    out, err = launch(tmp_path, script, "-n", "2", "--devices-per-process", "3").communicate(timeout=30)
    lines = [f"[{i}] {line}" for i in (0, 1) for line in (f"['-a', 'b c'] {i} 2 3", "e")]
    assert sorted(out.splitlines()) == sorted(lines) and err == ""


@pytest.mark.parametrize(
    "printed",
    [
        "[Gloo] Rank [Gloo] Rank 30 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n"
        " is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n",
        "[Gloo] Rank 3[Gloo] Rank  is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n"
        "2 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n",
        "[Gloo] Rank 0 is connected to [Gloo] Rank 3 peer ranks. 1Expected number of connected peer ranks is : "
        " is connected to 3 peer ranks. Expected number of connected peer ranks is : 33\n\n",
    ],
)
def test_launch_leaves_out_what_gloo_prints_in_pieces(tmp_path, printed):
    script = f"print(3)\nprint({printed!r}, end='')\nprint()\nprint(3)\nprint('[Gloo] failed')"
    out, _ = launch(tmp_path, script, "-n", "1").communicate(timeout=30)
    assert out.splitlines() == ["[0] 3", "[0] ", "[0] 3", "[0] [Gloo] failed"]


def test_launch_of_a_module():
    command = [sys.executable, "-m", "xpr.launch", "-n", "1", "-m", "ast", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), text=True, capture_output=True, check=True, timeout=30)
    assert done.stdout.startswith("[0] usage: python -m ast")


def test_launch_ends_all_when_one_fails(tmp_path):
    script = "import os, sys, time; i = os.environ['XPR_PROCESS_ID'];\nif i == '1': sys.exit(7)\ntime.sleep(60)"
    started = launch(tmp_path, script, "-n", "3")
    _, err = started.communicate(timeout=30)
    assert started.returncode == 7 and err == "process 1 failed with exit code 7\n"
    script = script.replace("sys.exit(7)", "os.kill(os.getpid(), 9)")
    started = launch(tmp_path, script, "-n", "3")
    _, err = started.communicate(timeout=30)
    assert started.returncode == 137 and err == "process 1 failed with SIGKILL\n"


def test_launch_passes_signals_on(tmp_path):
    script = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("told"), sys.exit()))
print("there")
while True:  # short sleeps: a signal that comes just before a sleep begins is handled after it
    time.sleep(0.1)
"""
    started = launch(tmp_path, script, "-n", "2")
    assert {started.stdout.readline() for _ in range(2)} == {"[0] there\n", "[1] there\n"}
    started.terminate()
    out, _ = started.communicate(timeout=30)
    assert sorted(out.splitlines()) == ["[0] told", "[1] told"] and started.returncode == 128 + signal.SIGTERM


def test_launch_kills_when_told_twice(tmp_path):
    script = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('there')\ntime.sleep(60)"
    started = launch(tmp_path, script, "-n", "1")
    assert started.stdout.readline() == "[0] there\n"
    for _ in range(2):
        started.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert started.wait(30) == 137
    started.communicate()


def test_launch_wants_a_number(tmp_path):
    _, err = launch(tmp_path, "", "-n", "none").communicate(timeout=30)
    assert "'none' is no number of them" in err
