package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// Web is a program that reads its configuration again when it gets a POST on its own web server, and answers with what is
// wrong with it.
type Web struct {
	Program string
	Port    int
	Path    string // that reloads, "/-/reload"
	// Check is a command that exits with 0 where the configuration at path is good; nil for none. What it refuses is not
	// put in place at all. An image that hasn't the command goes without.
	Check func(path string) []string
	// Pause waits before a program that didn't answer is asked again; nil waits PauseFor.
	Pause func(ctx context.Context) error
}

// Reload makes a running program use a new configuration file. Only the program itself knows for sure whether that is good,
// so it is asked with the new file in place; where it refuses, the old one is put back and read again: it may have begun
// with the new one. Reload may be repeated after a crash at any point.
func (w Web) Reload(ctx context.Context, machine renderer.Machine, instance string, config renderer.File) error {
	s := newSwap(w.Program, machine, instance, config)
	if err := s.push(ctx); err != nil {
		return s.fail(err)
	}
	if w.Check != nil {
		if err := s.check(ctx, w.Check(s.staged)); err != nil && !errors.Is(err, incus.ErrCommandNotFound) {
			return s.fail(err)
		}
	}
	ctx, cancel := toTheEnd(ctx)
	defer cancel()
	if err := s.replace(ctx); err != nil {
		return s.fail(errors.Join(err, s.restore(ctx)))
	}
	if err := w.ask(ctx, s); err != nil {
		return s.fail(errors.Join(err, w.goBack(ctx, s, err)))
	}
	return s.proven(ctx)
}

func (w Web) goBack(ctx context.Context, s swap, cause error) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	if !errors.Is(cause, ErrRefused) {
		return nil // it has read nothing
	}
	if err := w.ask(ctx, s); err != nil {
		return fmt.Errorf("%s is as it was, but to read it again failed: %w", s.config.Path, err)
	}
	return nil
}

// ask has the program read its configuration. One that doesn't answer is waited for: it may be the old configuration that
// keeps it from running, and whatever starts it will do so again.
func (w Web) ask(ctx context.Context, s swap) error {
	var unanswered error
	for range looksFor {
		got, err := s.post(ctx, w.Port, w.Path)
		if err == nil {
			return w.judge(got)
		}
		if !errors.Is(err, errUnanswered) {
			return err
		}
		unanswered = err
		if err := pause(ctx, w.Pause); err != nil {
			return fmt.Errorf("%w: %w (last: %w)", ErrNotTaken, err, unanswered)
		}
	}
	return fmt.Errorf("%w: %w", ErrNotTaken, unanswered)
}

// judge tells a refused configuration from a program that doesn't reload in this way.
func (w Web) judge(got answer) error {
	switch {
	case got.status >= 200 && got.status < 300:
		return nil
	case got.status == http.StatusBadRequest || got.status >= 500:
		return fmt.Errorf("%w: %s", ErrRefused, got.body)
	}
	return fmt.Errorf("%w: POST %s on port %d answers %d: %s", ErrNotTaken, w.Path, w.Port, got.status, got.body)
}
