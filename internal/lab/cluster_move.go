package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Evacuate moves all instances of the member to others and keeps new ones off it.
func (c *Cluster) Evacuate(ctx context.Context, name string) error {
	_, err := c.Incus(ctx, "cluster", "evacuate", name, "--force", "--quiet")
	return err
}

// Restore ends the member's evacuation: its instances move back.
func (c *Cluster) Restore(ctx context.Context, name string) error {
	_, err := c.Incus(ctx, "cluster", "restore", name, "--force", "--quiet")
	return err
}

// Move moves an instance to the member, as a person would by hand: one that runs is stopped for it, since containers
// can't move alive without CRIU, and started there.
func (c *Cluster) Move(ctx context.Context, project, instance, to string) error {
	listing, err := c.Incus(ctx, "list", "^"+instance+"$", "--project", project, "--format", "csv", "--columns", "s")
	if err != nil {
		return err
	}
	running := strings.TrimSpace(listing) == "RUNNING"
	steps := [][]string{
		{"stop", instance, "--force"},
		{"move", instance, "--target", to, "--quiet"},
		{"start", instance},
	}
	if !running {
		steps = steps[1:2]
	}
	for _, step := range steps {
		if _, err := c.Incus(ctx, append(step, "--project", project)...); err != nil {
			return fmt.Errorf("move %s to %s: %w", instance, to, err)
		}
	}
	return nil
}

// Location returns the member that an instance is on.
func (c *Cluster) Location(ctx context.Context, project, instance string) (string, error) {
	listing, err := c.Incus(ctx, "list", "^"+instance+"$", "--project", project, "--format", "csv", "--columns", "L")
	if err != nil {
		return "", err
	}
	if location := strings.TrimSpace(listing); location != "" {
		return location, nil
	}
	return "", errors.New("no instance " + instance + " is in the project " + project)
}
