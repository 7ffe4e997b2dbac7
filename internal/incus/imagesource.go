package incus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// ImageSource says where an image comes from.
type ImageSource struct {
	Server      string // URL of the remote, empty for images that the server holds already
	Protocol    string // "" (local), "incus", "simplestreams" or "oci"
	Alias       string // one of Alias and Fingerprint
	Fingerprint string
	Certificate string // PEM of the remote's certificate, for the protocol "incus"
}

// String names the source for people.
func (s ImageSource) String() string {
	name := s.Alias
	if name == "" {
		name = s.Fingerprint
	}
	if s.Server == "" {
		return name
	}
	return s.Server + " " + name
}

// fingerprintLike is what may be a beginning of a fingerprint.
var fingerprintLike = regexp.MustCompile(`^[0-9a-f]{6,64}$`)

// EnsureImage makes sure that the server holds an image and returns its fingerprint.
//
// A local source is only looked up. A remote one is pulled by the server, which finds out itself whether it holds that
// image already; several callers in this process share one pull. A missing image is ErrNotFound, refused credentials are
// ErrForbidden; neither gets better by waiting. instanceType is "container", "virtual-machine", or empty for either.
func (c *Client) EnsureImage(ctx context.Context, source ImageSource, instanceType string) (string, error) {
	if (source.Alias == "") == (source.Fingerprint == "") {
		return "", &Error{Kind: ErrInvalid, Method: http.MethodGet, Path: apiPath("images"), Message: "an image is named by its alias or by its fingerprint"}
	}
	if source.Protocol == "" {
		fingerprint, err := c.localImage(ctx, source, instanceType)
		if errors.Is(err, ErrNotFound) {
			err = c.hidden(ctx, err)
		}
		return fingerprint, err
	}
	if source.Server == "" {
		return "", &Error{Kind: ErrInvalid, Method: http.MethodPost, Path: apiPath("images"), Message: "image " + source.String() + ": the remote has no address"}
	}
	if source.Protocol == "oci" {
		if err := c.require(ctx, "instance_oci", "an application container from "+source.Server); err != nil {
			return "", err
		}
	}
	for {
		began := false
		fingerprint, err := c.link.pulls.share(ctx, c.project+" "+source.Protocol+" "+source.String()+" "+instanceType, func(ctx context.Context) (string, error) {
			began = true
			return c.pull(ctx, source, instanceType)
		})
		var guarded *notLet
		if ctx.Err() != nil || began || !errors.As(err, &guarded) {
			return fingerprint, err
		}
		// The guard of whoever began it did not let it go: that is none of this client's business.
	}
}

// localImage looks an image up by alias, then by fingerprint.
func (c *Client) localImage(ctx context.Context, source ImageSource, instanceType string) (string, error) {
	prefix := source.Fingerprint
	if source.Alias != "" {
		alias, err := c.GetImageAlias(ctx, source.Alias)
		if err == nil {
			return alias.Target, suits(source, alias.Type, instanceType)
		}
		if !errors.Is(err, ErrNotFound) || !fingerprintLike.MatchString(source.Alias) {
			return "", err
		}
		prefix = source.Alias
	}
	image, err := c.GetImage(ctx, strings.ToLower(prefix))
	if err != nil {
		return "", err
	}
	return image.Fingerprint, suits(source, image.Type, instanceType)
}

// hidden tells a missing image from one that is hidden: to a client that it does not trust the server shows public images
// only, and answers 404 for the rest.
func (c *Client) hidden(ctx context.Context, missing error) error {
	server, err := c.GetServer(ctx)
	if err != nil || server.Auth != "untrusted" {
		return missing
	}
	return &Error{Kind: ErrForbidden, Method: http.MethodGet, Path: apiPath("images"), Status: http.StatusForbidden, Message: "the server does not trust this client"}
}

// suits checks that an image is for the wanted type of instance.
func suits(source ImageSource, have, want string) error {
	if want == "" || have == "" || have == want {
		return nil
	}
	return &Error{Kind: ErrInvalid, Method: http.MethodGet, Path: apiPath("images"), Message: fmt.Sprintf("image %s is for a %s, not for a %s", source, have, want)}
}

// pullAttempts bounds the race with another process that pulls the same image: the loser looks again.
const pullAttempts = 3

// pull has the server fetch an image.
func (c *Client) pull(ctx context.Context, source ImageSource, instanceType string) (string, error) {
	request := map[string]any{"type": "image", "mode": "pull", "server": source.Server, "protocol": source.Protocol}
	for key, value := range map[string]string{
		"alias": source.Alias, "fingerprint": source.Fingerprint, "certificate": source.Certificate, "image_type": instanceType,
	} {
		if value != "" {
			request[key] = value
		}
	}
	k := call{method: http.MethodPost, path: apiPath("images"), body: map[string]any{"source": request}}
	for attempt := 1; ; attempt++ {
		fingerprint, err := c.pullOnce(ctx, k)
		if err == nil {
			return fingerprint, nil
		}
		if attempt == pullAttempts || !errors.Is(err, ErrAlreadyExists) {
			return "", fmt.Errorf("incus: pull image %s: %w", source, sortPull(err))
		}
	}
}

func (c *Client) pullOnce(ctx context.Context, k call) (string, error) {
	op, err := c.start(ctx, k)
	if err != nil {
		return "", err
	}
	state, err := op.result(ctx)
	if err != nil {
		return "", err
	}
	fingerprint, err := pulledFingerprint(state)
	if err != nil {
		return "", op.failure("the pull ended without an image: " + err.Error())
	}
	return fingerprint, nil
}

// pullKinds maps what remotes answer, as the server passes it on.
var pullKinds = []struct {
	part string
	kind error
}{
	{"unauthorized", ErrForbidden},
	{"authentication required", ErrForbidden},
	{"access to the resource is denied", ErrForbidden},
	{"forbidden", ErrForbidden},
	{"not authorized", ErrForbidden},
	{"couldn't be found", ErrNotFound},
	{"image not found", ErrNotFound},
	{"manifest unknown", ErrNotFound},
	{"name unknown", ErrNotFound},
	{"no such image", ErrNotFound},
	{"404 not found", ErrNotFound},
}

// sortPull adds the kind of a failed pull where the remote's words tell it.
func sortPull(err error) error {
	var failed *Error
	if !errors.As(err, &failed) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrForbidden) {
		return err
	}
	lower := strings.ToLower(failed.Message)
	for _, known := range pullKinds {
		if strings.Contains(lower, known.part) {
			sorted := *failed
			sorted.Err = errors.Join(known.kind, failed.Err)
			return &sorted
		}
	}
	return err
}

// pulls lets callers that want the same image at the same time share one pull.
type pulls struct {
	mu    *sync.Mutex
	going map[string]*sharedPull
}

type sharedPull struct {
	done        chan struct{}
	waiting     int
	cancel      context.CancelFunc
	fingerprint string
	err         error
}

func newPulls() pulls { return pulls{mu: new(sync.Mutex), going: map[string]*sharedPull{}} }

// share joins the pull of a key, or starts it. The pull ends early only when nobody waits for it any longer: a caller
// that gives up must not fail the others.
func (p pulls) share(ctx context.Context, key string, pull func(context.Context) (string, error)) (string, error) {
	p.mu.Lock()
	shared, ok := p.going[key]
	if !ok {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		shared = &sharedPull{done: make(chan struct{}), cancel: cancel}
		p.going[key] = shared
		go func() {
			defer cancel()
			shared.fingerprint, shared.err = pull(own)
			p.mu.Lock()
			if p.going[key] == shared {
				delete(p.going, key)
			}
			p.mu.Unlock()
			close(shared.done)
		}()
	}
	shared.waiting++
	p.mu.Unlock()

	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if shared.waiting--; shared.waiting == 0 {
			shared.cancel()
			if p.going[key] == shared {
				delete(p.going, key)
			}
		}
	}()
	select {
	case <-shared.done:
		return shared.fingerprint, shared.err
	case <-ctx.Done():
		return "", fmt.Errorf("incus: pull image: %w", ctx.Err())
	}
}
