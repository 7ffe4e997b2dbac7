package rollout

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// compareLimit is how much a volume may hold, in bytes, for its copy to be compared with it file by file. Both are packed into
// archives on the server and read from there: that takes as much space again, and the member is down for it.
const compareLimit = 256 << 20

// archiveLife is how long the server keeps such an archive where the run that made it is killed.
const archiveLife = time.Hour

// compare tells where the files of a copy are others than those of its source. Both are at rest. That they could not be
// compared is no reason to keep the data where it is, but one to say so.
func (r *run) compare(ctx context.Context, t *transfer) error {
	switch {
	case t.holds < 0:
		r.warn(compared, "volume %s was copied from %s to %s without a comparison file by file: neither its pool nor du in %s told how much it holds.", t.name, t.from, t.to, t.of)
		return nil
	case t.holds > compareLimit:
		r.warn(compared, "volume %s was copied from %s to %s without a comparison file by file: it holds %s, which is more than %s.", t.name, t.from, t.to, humanize.IBytes(uint64(t.holds)), humanize.IBytes(compareLimit))
		return nil
	}
	had, err := r.manifest(ctx, r.at(t.from), t.from.Pool, t.name)
	var has map[string][sha256.Size]byte
	if err == nil {
		has, err = r.manifest(ctx, r.at(t.to), t.pool, t.under)
	}
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err != nil: // a project may forbid archives, or the server have no room for them
		r.warn(compared, "volume %s was copied from %s to %s without a comparison file by file, since its files could not be read: %s.", t.name, t.from, t.to, err)
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(had)) {
		if has[path] != had[path] {
			return fmt.Errorf("%s in it is not what it is in volume %s", path, t.name)
		}
	}
	if len(has) != len(had) {
		return fmt.Errorf("it has %d files, not %d", len(has), len(had))
	}
	r.log(ctx, "compared", map[string]any{"volume": t.name, "files": len(had), "bytes": t.holds})
	return nil
}

// weighTime bounds how long an instance may take to say how much a volume holds.
const weighTime = 20 * time.Second

// weigh finds out how much the volumes hold that move, while the member still runs. It is for the choice only what to do
// with them, so that whatever goes wrong leaves it open.
func (r *run) weigh(ctx context.Context, m *move) {
	for _, t := range m.transfers {
		t.of = m.Blue.Name
		if t.holds = r.usage(ctx, t.from, t.name); t.holds >= 0 || t.whole || !m.Blue.Running {
			continue
		}
		asked, stop := context.WithTimeout(ctx, weighTime)
		result, err := r.Incus.ExecInstance(asked, m.Blue.Name, incus.ExecPost{Command: []string{"du", "-skx", t.Path}})
		stop()
		if size, _, _ := strings.Cut(string(result.Stdout), "\t"); err == nil && result.ExitCode == 0 {
			if kib, err := strconv.ParseInt(strings.TrimSpace(size), 10, 64); err == nil {
				t.holds = kib << 10
			}
		}
	}
}

// usage is how much a volume holds by its pool's word, in bytes, -1 where that doesn't tell. A cluster's member knows it of
// its own volumes only (Incus 6.0.4).
func (r *run) usage(ctx context.Context, at Spot, name string) int64 {
	state, err := r.at(at).GetStoragePoolVolumeState(ctx, at.Pool, name)
	if err != nil || state.Usage == nil {
		return -1
	}
	return state.Usage.Used
}

// manifest is what a volume holds: of each path the hash of all that makes it up.
func (r *run) manifest(ctx context.Context, server Incus, pool, volume string) (map[string][sha256.Size]byte, error) {
	name := "homelab-ops-" + strings.ToLower(r.id[:min(len(r.id), 8)])
	op, err := server.CreateStoragePoolVolumeBackup(ctx, pool, volume, name, r.Clock.Now().Add(archiveLife))
	if err == nil {
		err = op.Wait(ctx)
	}
	if err != nil {
		return nil, err
	}
	var files map[string][sha256.Size]byte
	err = server.ReadStoragePoolVolumeBackup(ctx, pool, volume, name, func(archive io.Reader) error {
		var err error
		files, err = readManifest(archive)
		return err
	})
	if gone, drop := server.DeleteStoragePoolVolumeBackup(ctx, pool, volume, name); drop == nil {
		_ = gone.Wait(ctx) // otherwise the server removes it later
	}
	return files, err
}

// contents is where an archive has a volume's files.
const contents = "backup/volume"

// readManifest reads an archive. What isn't the volume's own is left out, and so is when a file was last read.
func readManifest(archive io.Reader) (map[string][sha256.Size]byte, error) {
	files := map[string][sha256.Size]byte{}
	for in := tar.NewReader(archive); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		path, inside := strings.CutPrefix(strings.TrimSuffix(header.Name, "/"), contents)
		if !inside {
			continue
		}
		sum := sha256.New()
		fmt.Fprintf(sum, "%c %o %d %d %d %q %d %d %d\n", header.Typeflag, header.Mode, header.Uid, header.Gid, header.Size, header.Linkname, header.Devmajor, header.Devminor, header.ModTime.Unix())
		for _, key := range slices.Sorted(maps.Keys(header.PAXRecords)) {
			if strings.HasPrefix(key, "SCHILY.xattr.") {
				fmt.Fprintf(sum, "%s %q\n", key, header.PAXRecords[key])
			}
		}
		if _, err := io.Copy(sum, in); err != nil {
			return nil, err
		}
		files["/"+strings.TrimPrefix(path, "/")] = [sha256.Size]byte(sum.Sum(nil))
	}
}
