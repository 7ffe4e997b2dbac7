package incus

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// profilePut is what can be changed of a profile.
type profilePut struct {
	Description string                       `json:"description"`
	Config      map[string]string            `json:"config"`
	Devices     map[string]map[string]string `json:"devices"`
}

func (p Profile) put() profilePut {
	put := profilePut{Description: p.Description, Config: p.Config, Devices: p.Devices}
	if put.Config == nil {
		put.Config = map[string]string{}
	}
	if put.Devices == nil {
		put.Devices = map[string]map[string]string{}
	}
	return put
}

// GetProfiles lists the profiles of the client's project.
func (c *Client) GetProfiles(ctx context.Context) ([]Profile, error) {
	var profiles []Profile
	_, err := c.get(ctx, call{path: apiPath("profiles"), query: url.Values{"recursion": {"1"}}}, &profiles)
	return profiles, err
}

// GetProfilesAt lists the profiles of the client's project, and tells what time it is by the server, to the second: the one
// clock that all its clients share.
func (c *Client) GetProfilesAt(ctx context.Context) ([]Profile, time.Time, error) {
	k := call{method: http.MethodGet, path: apiPath("profiles"), query: url.Values{"recursion": {"1"}}}
	got, err := c.do(ctx, k)
	if err != nil {
		return nil, time.Time{}, err
	}
	var profiles []Profile
	if err := c.decode(k, got, &profiles); err != nil {
		return nil, time.Time{}, err
	}
	now, err := http.ParseTime(got.header.Get("Date"))
	if err != nil {
		return nil, time.Time{}, &Error{Method: k.method, Path: c.location(k), Message: "the answer does not say what time it is", Err: err}
	}
	return profiles, now, nil
}

// GetProfile reads one profile and its ETag.
func (c *Client) GetProfile(ctx context.Context, name string) (*Profile, string, error) {
	var profile Profile
	etag, err := c.get(ctx, call{path: apiPath("profiles", name)}, &profile)
	if err != nil {
		return nil, "", err
	}
	return &profile, etag, nil
}

// CreateProfile makes a profile. Of several callers with the same name exactly one succeeds; the others get ErrAlreadyExists.
func (c *Client) CreateProfile(ctx context.Context, profile Profile) error {
	body := struct {
		Name string `json:"name"`
		profilePut
	}{profile.Name, profile.put()}
	return c.write(ctx, call{method: http.MethodPost, path: apiPath("profiles"), body: body})
}

// UpdateProfile replaces a profile's content. The server's check of the ETag is no lock: two writers with the same fresh
// one often both succeed.
func (c *Client) UpdateProfile(ctx context.Context, name string, profile Profile, etag string) error {
	return c.write(ctx, call{method: http.MethodPut, path: apiPath("profiles", name), body: profile.put(), etag: etag})
}

// DeleteProfile deletes a profile that no instance uses.
func (c *Client) DeleteProfile(ctx context.Context, name string) error {
	return c.write(ctx, call{method: http.MethodDelete, path: apiPath("profiles", name)})
}
