package incustest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// remoteKey names an image of a remote.
type remoteKey struct{ server, protocol, alias string }

// remoteImage is an image that can be pulled.
type remoteImage struct {
	fingerprint string
	version     string
	refusal     string // instead of the image
}

// fingerprintOf makes up a fingerprint.
func fingerprintOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// AddImage adds an image with an alias to the default project and returns its fingerprint, which depends on alias and
// version alone. An alias that exists moves to the new image.
func (s *Server) AddImage(alias, version string) string {
	return s.addImage(alias, version, "container")
}

// AddMachineImage is AddImage for virtual machines.
func (s *Server) AddMachineImage(alias, version string) string {
	return s.addImage(alias, version, virtualMachine)
}

func (s *Server) addImage(alias, version, kind string) string {
	fingerprint := fingerprintOf(alias, version)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store("default", fingerprint, version, kind)
	s.aliases[key{"default", alias}] = incus.ImageAlias{Name: alias, Target: fingerprint, Type: kind}
	return fingerprint
}

// store adds an image. The lock is held.
func (s *Server) store(project, fingerprint, version, kind string) {
	s.images[key{project, fingerprint}] = &incus.Image{
		Fingerprint: fingerprint, Type: kind, Architecture: "x86_64", Size: 1 << 20, CreatedAt: s.now(), UploadedAt: s.now(),
		Properties: map[string]string{"description": "test image", "version": version},
	}
}

// RemoveImage removes an image with its aliases.
func (s *Server) RemoveImage(fingerprint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.images, func(k key, _ *incus.Image) bool { return k.name == fingerprint })
	maps.DeleteFunc(s.aliases, func(_ key, a incus.ImageAlias) bool { return a.Target == fingerprint })
}

// AddRemoteImage makes an image that can be pulled from a remote, and returns its fingerprint.
func (s *Server) AddRemoteImage(server, protocol, alias, version string) string {
	fingerprint := fingerprintOf(server, protocol, alias, version)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remotes[remoteKey{server, protocol, alias}] = &remoteImage{fingerprint: fingerprint, version: version}
	return fingerprint
}

// RefuseRemote makes the pull of an image fail with a text, for example "unauthorized: authentication required".
func (s *Server) RefuseRemote(server, protocol, alias, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remotes[remoteKey{server, protocol, alias}] = &remoteImage{refusal: message}
}

// Pulled counts the images that were really fetched from a remote.
func (s *Server) Pulled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulled
}

// imageFor finds the image of a new instance. The lock is held.
func (s *Server) imageFor(project string, source incus.InstanceSource) (*incus.Image, error) {
	if source.Type == "none" {
		return nil, nil
	}
	home, err := s.holder(project, "features.images")
	if err != nil {
		return nil, err
	}
	fingerprint := source.Fingerprint
	if source.Alias != "" {
		fingerprint = s.aliases[key{home, source.Alias}].Target
	}
	image, err := s.findImage(home, fingerprint)
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "Image not provided for instance creation")
	}
	return image, nil
}

// findImage finds an image by a unique beginning of its fingerprint. The lock is held.
func (s *Server) findImage(project, prefix string) (*incus.Image, error) {
	var found *incus.Image
	for k, image := range s.images {
		if k.project != project || prefix == "" || !strings.HasPrefix(image.Fingerprint, prefix) {
			continue
		}
		if found != nil {
			return nil, fail(http.StatusBadRequest, "Partial fingerprint matches more than one image")
		}
		found = image
	}
	if found == nil {
		return nil, fail(http.StatusNotFound, fmt.Sprintf("Image %q not found", prefix))
	}
	return found, nil
}

// showImage adds an image's aliases. The lock is held.
func (s *Server) showImage(project string, image *incus.Image) incus.Image {
	out := *image
	out.Aliases = []incus.ImageAliasName{}
	for k, alias := range s.aliases {
		if k.project == project && alias.Target == image.Fingerprint {
			out.Aliases = append(out.Aliases, incus.ImageAliasName{Name: alias.Name})
		}
	}
	slices.SortFunc(out.Aliases, func(a, b incus.ImageAliasName) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *Server) listImages(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.holder(projectOf(r), "features.images")
	if err != nil {
		return nil, err
	}
	shown := []incus.Image{}
	for k, image := range s.images {
		if k.project == home {
			shown = append(shown, s.showImage(home, image))
		}
	}
	slices.SortFunc(shown, func(a, b incus.Image) int { return strings.Compare(a.Fingerprint, b.Fingerprint) })
	return list(r, shown, func(i incus.Image) string { return "/1.0/images/" + i.Fingerprint }), nil
}

func (s *Server) getImage(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.holder(projectOf(r), "features.images")
	if err != nil {
		return nil, err
	}
	image, err := s.findImage(home, r.PathValue("fingerprint"))
	if err != nil {
		return nil, err
	}
	return object(s.showImage(home, image)), nil
}

func (s *Server) getAlias(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.holder(projectOf(r), "features.images")
	if err != nil {
		return nil, err
	}
	alias, ok := s.aliases[key{home, r.PathValue("name")}]
	if !ok {
		return nil, fail(http.StatusNotFound, "Image alias not found")
	}
	return object(alias), nil
}

// postImage pulls an image from a remote.
func (s *Server) postImage(r *http.Request) (reply, error) {
	var post struct {
		Source struct {
			Type, Mode, Server, Protocol, Alias, Fingerprint string
			ImageType                                        string `json:"image_type"`
		} `json:"source"`
	}
	if err := read(r, &post); err != nil {
		return nil, err
	}
	project := projectOf(r)
	return s.run(r, "Downloading image", "", func() (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		home, err := s.holder(project, "features.images")
		if err != nil {
			return nil, err
		}
		source := post.Source
		if !slices.Contains([]string{"incus", "simplestreams", "oci"}, source.Protocol) {
			return nil, fail(http.StatusInternalServerError, "Unsupported protocol: "+source.Protocol)
		}
		remote := s.remotes[remoteKey{source.Server, source.Protocol, source.Alias}]
		for k, candidate := range s.remotes {
			if source.Fingerprint != "" && k.server == source.Server && strings.HasPrefix(candidate.fingerprint, source.Fingerprint) {
				remote = candidate
			}
		}
		if remote == nil {
			return nil, fail(http.StatusInternalServerError, "Failed getting remote image info: Failed getting image: The requested image couldn't be found for fingerprint \""+source.Alias+"\"")
		}
		if remote.refusal != "" {
			return nil, fail(http.StatusInternalServerError, "Failed getting remote image info: "+remote.refusal)
		}
		if _, held := s.images[key{home, remote.fingerprint}]; !held {
			s.store(home, remote.fingerprint, remote.version, orDefault(source.ImageType, "container"))
			s.pulled++
		}
		return map[string]any{"fingerprint": remote.fingerprint, "size": 1 << 20}, nil
	}), nil
}
