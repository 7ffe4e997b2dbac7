package rollout

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
	"github.com/homelabops/terraform-provider-homelabops/internal/version"
)

// resolveImage makes sure that the server has the image, before anything is created: what can't be had fails here, in
// seconds.
func (r *run) resolveImage(ctx context.Context) error {
	if pinned := r.wish.Fingerprint; pinned != "" {
		image, err := r.Incus.GetImage(ctx, pinned)
		if err == nil {
			r.take(image)
			return nil
		}
		if !errors.Is(err, incus.ErrNotFound) {
			return r.failed(ErrImage, r.wish, "find its image", err)
		}
	}
	ref, err := version.ParseImage(r.wish.App.Image)
	if err != nil {
		return r.failed(ErrImage, r.wish, "read its image reference", err)
	}
	source, err := imageSource(ref, r.wish.Remotes)
	if err != nil {
		return r.failed(ErrImage, r.wish, "find its image", err)
	}
	fingerprint, err := r.Incus.EnsureImage(ctx, source, r.instanceType())
	if err != nil {
		err = fmt.Errorf("image %q: %w", r.wish.App.Image, err)
		return r.failed(ErrImage, r.wish, "get its image", err)
	}
	if pinned := r.wish.Fingerprint; pinned != "" && fingerprint != pinned {
		return &Failure{
			Kind: ErrImage, App: r.wish.App.Name, Doing: "get its image",
			Cause:  fmt.Errorf("the App is pinned to image %.12s, which the server has no more; %q leads to %.12s now", pinned, r.wish.App.Image, fingerprint),
			Now:    []string{"Nothing was changed."},
			Advice: fmt.Sprintf("Roll out what it leads to by writing the fingerprint as image: %q.", fingerprint),
		}
	}
	image, err := r.Incus.GetImage(ctx, fingerprint)
	if err != nil {
		return r.failed(ErrImage, r.wish, "look at its image", err)
	}
	r.take(image)
	return nil
}

// take makes new instances from an image.
func (r *run) take(image *incus.Image) {
	r.fingerprint, r.version = image.Fingerprint, r.wish.App.Version
	if r.version == "" {
		r.version = image.Properties["version"]
	}
}

// imageSource says where the server gets an image from.
func imageSource(ref version.Image, remotes map[string]ImageRemote) (incus.ImageSource, error) {
	if ref.Remote == "" {
		return incus.ImageSource{Alias: ref.Alias, Fingerprint: ref.Fingerprint}, nil
	}
	remote, ok := remotes[ref.Remote]
	if !ok {
		var names []string
		for name := range remotes {
			names = append(names, name)
		}
		sort.Strings(names)
		return incus.ImageSource{}, fmt.Errorf("image remote %q is not known: known are %v; add it to image_remotes of the provider", ref.Remote, names)
	}
	source := incus.ImageSource{Server: remote.Server, Protocol: remote.Protocol, Certificate: remote.Certificate, Fingerprint: ref.Fingerprint}
	if ref.Fingerprint == "" {
		source.Alias = strings.TrimPrefix(ref.String(), ref.Remote+":") // with tag and digest, as the remote knows it
	}
	return source, nil
}
