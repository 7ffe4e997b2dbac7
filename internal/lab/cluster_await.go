package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// MemberStatus is what the cluster says about a member.
type MemberStatus struct {
	Name    string   `json:"server_name"`
	Status  string   `json:"status"` // "Online", "Offline", "Evacuated"
	Message string   `json:"message"`
	Roles   []string `json:"roles"`
	Groups  []string `json:"groups"`
}

// Statuses asks the first member that is well about all of them.
func (c *Cluster) Statuses(ctx context.Context) ([]MemberStatus, error) {
	member, err := c.spokesman()
	if err != nil {
		return nil, err
	}
	var statuses []MemberStatus
	return statuses, member.query(ctx, "/1.0/cluster/members?recursion=1", &statuses)
}

// Leader names the member that leads the cluster's database. Without it every request waits for some seconds until
// another leads, so a test that measures the loss of a member chooses one that doesn't.
func (c *Cluster) Leader(ctx context.Context) (string, error) {
	statuses, err := c.Statuses(ctx)
	if err != nil {
		return "", err
	}
	for _, status := range statuses {
		if slices.Contains(status.Roles, "database-leader") {
			return status.Name, nil
		}
	}
	return "", errors.New("no member leads the cluster's database")
}

// mend ends every fault of every member, and returns when the cluster is as if there never had been one: no member is
// offline or evacuated, and no instance is in error.
func (c *Cluster) mend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	// All at once: a daemon is ready only when enough others are there.
	group, reviveCtx := errgroup.WithContext(ctx)
	for _, member := range c.Members() {
		group.Go(func() error { return member.revive(reviveCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.await(ctx); err != nil {
		return err
	}
	statuses, err := c.Statuses(ctx)
	if err != nil {
		return err
	}
	for _, status := range statuses {
		if status.Status == evacuated {
			if err := c.Restore(ctx, status.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	online    = "Online"
	evacuated = "Evacuated"
)

// await waits until all members that are well see each other. A daemon says that it is ready before the others agree.
// It fails at once where none is well.
func (c *Cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if _, err := c.spokesman(); err != nil {
		return err
	}
	for {
		seen := c.seen(ctx)
		if seen == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until all members see each other: %w: %w", ctx.Err(), seen)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// seen returns what a member that is well sees amiss with another that is well, or nil.
func (c *Cluster) seen(ctx context.Context) error {
	well := map[string]bool{}
	for _, member := range c.Members() {
		well[member.Name] = member.Condition() == Well
	}
	for _, observer := range c.Members() {
		if !well[observer.Name] {
			continue
		}
		if err := observer.sees(ctx, well); err != nil {
			return fmt.Errorf("seen from %s: %w", observer.Name, err)
		}
	}
	return nil
}

func (m Member) sees(ctx context.Context, well map[string]bool) error {
	var statuses []MemberStatus
	if err := m.query(ctx, "/1.0/cluster/members?recursion=1", &statuses); err != nil {
		return err
	}
	count := 0
	for _, status := range statuses {
		if !well[status.Name] {
			continue
		}
		if status.Status != online && status.Status != evacuated {
			return fmt.Errorf("%s is %s: %s", status.Name, status.Status, status.Message)
		}
		count++
		// A question that is passed on: that needs a connection which comes some seconds after the status is right again.
		var server struct{}
		if err := m.query(ctx, "/1.0?target="+status.Name, &server); err != nil {
			return err
		}
	}
	for _, expected := range well {
		if expected {
			count--
		}
	}
	if count != 0 {
		return errors.New("a member is missing from the cluster")
	}
	var instances []struct{ Name, Project, Location, Status string }
	if err := m.query(ctx, "/1.0/instances?recursion=1&all-projects=true", &instances); err != nil {
		return err
	}
	for _, instance := range instances {
		if well[instance.Location] && instance.Status == "Error" {
			return fmt.Errorf("instance %s of project %s on %s is in error", instance.Name, instance.Project, instance.Location)
		}
	}
	return nil
}

// queryTimeout bounds a question to a member: while another is frozen an answer takes 30 s.
const queryTimeout = 45 * time.Second

func (m Member) query(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	output, err := m.Server.Run(ctx, "query", path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(output), into); err != nil {
		return fmt.Errorf("read the answer to GET %s: %w", path, err)
	}
	return nil
}
