package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Server is one Incus daemon with a directory of its own. A lab has one; a cluster has several.
type Server struct {
	Dir    string   // its INCUS_DIR
	Log    string   // its log file, by which its process is told from its children
	CLI    string   // configuration directory of the incus CLI, so that the caller's own is never read or written
	Prefix []string // what runs the daemon, to enter namespaces for example; nothing runs it directly
}

// readyTimeout bounds how long a daemon may take to answer after its start.
const readyTimeout = 40 * time.Second

// maxSocketPath is how long the path of a Unix socket may be, from unix(7), without the final zero.
const maxSocketPath = 107

// daemonBinary finds incusd, which Debian keeps off PATH.
func daemonBinary() (string, error) {
	for _, path := range []string{"/usr/libexec/incus/incusd", "/opt/incus/bin/incusd"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("incusd")
	if err != nil {
		return "", errors.New("incusd isn't installed: run `make setup`, or install the package incus-base")
	}
	return path, nil
}

// Socket is the path of the daemon's Unix socket.
func (s Server) Socket() string { return filepath.Join(s.Dir, "unix.socket") }

// Pid returns the daemon's process id, 0 where it doesn't run. It is found by what the process is, not by a file that
// could be older than the process.
func (s Server) Pid() int {
	for _, process := range processes() {
		if !process.dead && slices.Contains(process.arguments, s.Log) && process.hasEnvironment("INCUS_DIR="+s.Dir) {
			return process.pid
		}
	}
	return 0
}

// Start starts the daemon, unless it runs, and waits until it is ready.
func (s Server) Start(ctx context.Context) error {
	if len(s.Socket()) > maxSocketPath {
		return fmt.Errorf("the path %s is too long for a Unix socket: choose a shorter state directory with %s", s.Socket(), EnvState)
	}
	if s.Pid() == 0 {
		if err := s.spawn(); err != nil {
			return err
		}
	}
	return s.WaitReady(ctx)
}

func (s Server) spawn() error {
	binary, err := daemonBinary()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o711); err != nil {
		return fmt.Errorf("make the daemon's directory: %w", err)
	}
	output, err := os.OpenFile(s.Log+".out", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the daemon's output: %w", err)
	}
	defer output.Close()
	arguments := slices.Concat(s.Prefix, []string{binary, "--group", "root", "--logfile", s.Log})
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Dir = "/"
	command.Env = s.environment()
	command.Stdout, command.Stderr = output, output
	// A session of its own: an interrupt at the terminal, or the end of the test, must not reach it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", binary, err)
	}
	go reap(command)
	return nil
}

// reap takes note of a daemon that ends while we are still here. Checks for goroutines left behind know it by this name.
func reap(command *exec.Cmd) { _ = command.Wait() }

// WaitReady waits until the daemon answers, or fails with the end of its log.
func (s Server) WaitReady(ctx context.Context) error {
	binary, err := daemonBinary()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout+5*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, binary, "waitready", "--timeout="+strconv.Itoa(int(readyTimeout/time.Second)))
	command.Env = s.environment()
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("incusd isn't ready after %s: %w: %s\n%s", readyTimeout, err, strings.TrimSpace(string(output)), s.logTail())
	}
	return nil
}

// Signal sends a signal to the daemon alone; its instances keep running.
func (s Server) Signal(signal syscall.Signal) error {
	pid := s.Pid()
	if pid == 0 {
		return fmt.Errorf("no incusd runs in %s", s.Dir)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		return fmt.Errorf("signal incusd (pid %d): %w", pid, err)
	}
	return nil
}

// Kill ends the daemon without giving it a chance to tidy up, and waits until it is gone. Its instances keep running.
func (s Server) Kill() error {
	pid := s.Pid()
	if pid == 0 {
		return nil
	}
	if left := killAll(map[int]bool{pid: true}); left != nil {
		return fmt.Errorf("incusd (pid %d) survived a SIGKILL", pid)
	}
	return nil
}

// Run runs the incus CLI against this daemon and returns what it printed on standard output.
func (s Server) Run(ctx context.Context, arguments ...string) (string, error) {
	return s.runWithInput(ctx, "", arguments...)
}

func (s Server) runWithInput(ctx context.Context, input string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "incus", append([]string{"--force-local"}, arguments...)...)
	command.Env = s.environment()
	command.Stdin = strings.NewReader(input)
	command.WaitDelay = time.Second
	var output, errorOutput strings.Builder
	command.Stdout, command.Stderr = &output, &errorOutput
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return output.String(), fmt.Errorf("incus %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(errorOutput.String()))
	}
	return output.String(), nil
}

// environment is ours with the daemon's directories in it, and with the system directories on PATH, which a user's
// shell may lack and where nft, dnsmasq and the btrfs tools are.
func (s Server) environment() []string {
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "INCUS_") || name == "PATH"
	})
	return append(environment,
		"INCUS_DIR="+s.Dir, "INCUS_CONF="+s.CLI, "PATH="+os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec/incus")
}

func (s Server) logTail() string {
	const lines = 15
	data, err := os.ReadFile(s.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
