package incus

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"time"
)

// Image is one image that the server holds.
type Image struct {
	Fingerprint  string            `json:"fingerprint"`
	Type         string            `json:"type"` // "container", "virtual-machine"
	Architecture string            `json:"architecture"`
	Size         int64             `json:"size"`
	Public       bool              `json:"public"`
	Cached       bool              `json:"cached"`
	AutoUpdate   bool              `json:"auto_update"`
	Properties   map[string]string `json:"properties"`
	Aliases      []ImageAliasName  `json:"aliases"`
	CreatedAt    time.Time         `json:"created_at"`
	UploadedAt   time.Time         `json:"uploaded_at"`
	// UpdateSource is the image server that the image came from; nil for one that was made or uploaded here.
	UpdateSource *ImageUpdateSource `json:"update_source"`
}

// ImageUpdateSource is where the server got an image from.
type ImageUpdateSource struct {
	Server   string `json:"server"`
	Protocol string `json:"protocol"`
	Alias    string `json:"alias"`
}

// ImageAliasName is a name of an image, as the image shows it.
type ImageAliasName struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ImageAlias is a name of an image.
type ImageAlias struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Target      string `json:"target"` // fingerprint
	Type        string `json:"type"`   // "container", "virtual-machine"
}

// GetImages lists the images that the server holds for the client's project.
func (c *Client) GetImages(ctx context.Context) ([]Image, error) {
	var images []Image
	_, err := c.get(ctx, call{path: apiPath("images"), query: url.Values{"recursion": {"1"}}}, &images)
	return images, err
}

// GetImage reads an image by its fingerprint or a unique beginning of it.
func (c *Client) GetImage(ctx context.Context, fingerprint string) (*Image, error) {
	var image Image
	if _, err := c.get(ctx, call{path: apiPath("images", fingerprint)}, &image); err != nil {
		return nil, err
	}
	return &image, nil
}

// GetImageAlias reads an alias of a local image.
func (c *Client) GetImageAlias(ctx context.Context, name string) (*ImageAlias, error) {
	var alias ImageAlias
	if _, err := c.get(ctx, call{path: apiPath("images", "aliases", name)}, &alias); err != nil {
		return nil, err
	}
	return &alias, nil
}

// pulledFingerprint reads what a pull produced.
func pulledFingerprint(state operationState) (string, error) {
	var metadata struct {
		Fingerprint string `json:"fingerprint"`
	}
	if err := json.Unmarshal(state.Metadata, &metadata); err != nil {
		return "", err
	}
	if metadata.Fingerprint == "" {
		return "", errors.New("the operation names no image")
	}
	return metadata.Fingerprint, nil
}
