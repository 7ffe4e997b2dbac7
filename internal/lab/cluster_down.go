package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// ClusterDown removes the cluster in dir with all that belongs to it: processes by their own ids, cgroups, namespaces,
// mounts, loop devices, interfaces, files. It is safe at any time: after a crash, after a ClusterUp that came halfway, after
// the machine restarted, or where nothing is. It fails with errInUse while a test is attached, unless force.
func ClusterDown(ctx context.Context, dir string, force bool) error {
	held, err := lock(ctx, state(dir).lock(), exclusive)
	if err != nil {
		return fmt.Errorf("take the cluster down: %w", err)
	}
	defer held.unlock()
	if _, err := os.Stat(state(dir).use()); err == nil && !force {
		use, err := tryLock(state(dir).use(), exclusive)
		if err != nil {
			return fmt.Errorf("take the cluster down: a test is attached to it: %w", err)
		}
		defer use.unlock()
	}
	if err := clusterDown(ctx, dir); err != nil {
		return fmt.Errorf("take the cluster down: %w", err)
	}
	return os.Remove(state(dir).lock())
}

func clusterDown(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	s := clusterState(dir)
	members, err := s.remains()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, member := range members {
		group.Go(func() error { return member.remove(ctx) })
	}
	failures := []error{group.Wait(), s.removeNetwork(ctx), unmountBelow(dir)}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return s.removeFiles()
}

// remains returns the members that are recorded, and those that only their directories tell of.
func (s clusterState) remains() ([]Member, error) {
	record, err := s.readRecord()
	if err != nil && !errors.Is(err, errNoRecord) {
		return nil, err
	}
	var members []Member
	recorded := map[string]bool{}
	for _, one := range record.Members {
		recorded[one.Name] = true
		members = append(members, newMember(s, record.Subnet, one))
	}
	directories, _ := filepath.Glob(filepath.Join(s.members(), "*"))
	for _, directory := range directories {
		if name := filepath.Base(directory); !recorded[name] {
			members = append(members, newMember(s, record.Subnet, MemberRecord{Name: name}))
		}
	}
	return members, nil
}

// removeFiles removes what is ours in the directory, and the directory where that leaves it empty: a mistyped state
// directory must not cost anybody a file.
func (s clusterState) removeFiles() error {
	common := state(s)
	ours := []string{
		s.members(), s.namespaces(), s.leases(), s.dhcpOutput(), common.cli(), common.clientCertificate(), common.clientKey(),
		common.use(), common.useGate(), common.images(), s.record() + ".new", s.record(),
	}
	for _, path := range ours {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := os.Remove(string(s)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the state directory (what is left in it isn't the cluster's): %w", err)
	}
	return nil
}

// validMemberName keeps a member's name fit for a path and for Incus.
func validMemberName(name string) bool {
	return name != "" && len(name) <= 20 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && name[0] != '-'
}
