# Ends Patroni without a word to it, so that PostgreSQL goes on: whatever started it starts it again.
import os, signal, sys

found = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as f:
            words = f.read().split(b"\0")
    except OSError:
        continue
    if sys.argv[1].encode() in words and any(os.path.basename(w) == b"patroni" for w in words[:2]):
        found.append(int(pid))
if 1 in found:
    sys.exit("Patroni is the first process of the instance, which would end with it: the image needs an init that starts Patroni again")
for pid in found:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
