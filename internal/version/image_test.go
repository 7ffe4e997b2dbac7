package version

import (
	"strings"
	"testing"
)

const (
	hex64  = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	digest = "sha256:" + hex64
)

func TestParseImageTakesEveryFormApart(t *testing.T) {
	cases := map[string]Image{
		"web/1.27.3":                             {Alias: "web/1.27.3", Version: "1.27.3"},
		"web":                                    {Alias: "web"},
		"1.27.3":                                 {Alias: "1.27.3", Version: "1.27.3"},
		"team/web/v2":                            {Alias: "team/web/v2", Version: "v2"},
		"images:debian/13":                       {Remote: "images", Alias: "debian/13", Version: "13"},
		"images:debian/13/cloud":                 {Remote: "images", Alias: "debian/13/cloud"},
		"lab:a/b/c":                              {Remote: "lab", Alias: "a/b/c"},
		"docker:nginx":                           {Remote: "docker", Alias: "nginx"},
		"docker:nginx:1.27":                      {Remote: "docker", Alias: "nginx", Tag: "1.27", Version: "1.27"},
		"docker:nginx:latest":                    {Remote: "docker", Alias: "nginx", Tag: "latest"},
		"docker:postgres:16.3-alpine":            {Remote: "docker", Alias: "postgres", Tag: "16.3-alpine", Version: "16.3-alpine"},
		"docker:library/nginx:1.27@" + digest:    {Remote: "docker", Alias: "library/nginx", Tag: "1.27", Digest: digest, Version: "1.27"},
		"docker:library/nginx@" + digest:         {Remote: "docker", Alias: "library/nginx", Digest: digest},
		"ghcr:org/app:1.2.3":                     {Remote: "ghcr", Alias: "org/app", Tag: "1.2.3", Version: "1.2.3"},
		"docker:feedfacecafe":                    {Remote: "docker", Alias: "feedfacecafe"},
		hex64:                                    {Fingerprint: hex64},
		hex64[:12]:                               {Fingerprint: hex64[:12]},
		hex64[:11]:                               {Alias: hex64[:11]},
		"images:" + hex64[:12]:                   {Remote: "images", Fingerprint: hex64[:12]},
		"größe/1.0":                              {Alias: "größe/1.0", Version: "1.0"},
		"nginx:1.27":                             {Remote: "nginx", Alias: "1.27", Version: "1.27"},
		"my-remote.example:web/2.6.12-1+deb12u2": {Remote: "my-remote.example", Alias: "web/2.6.12-1+deb12u2", Version: "2.6.12-1+deb12u2"},
	}
	for ref, want := range cases {
		got, err := ParseImage(ref)
		if err != nil || got != want {
			t.Errorf("ParseImage(%q) = %+v, %v; want %+v", ref, got, err, want)
		}
		if got.String() != ref {
			t.Errorf("ParseImage(%q).String() = %q", ref, got.String())
		}
	}
}

func TestParseImageSaysWhatIsWrong(t *testing.T) {
	cases := map[string]string{
		"":                             "image is empty",
		"web 1":                        "space",
		" web":                         "space",
		"web\n":                        "line break",
		"web\x00":                      "control character U+0000",
		"web\u200b":                    "control character U+200B",
		"web\xff":                      "UTF-8",
		"docker:":                      `names a remote but no image: write it as "docker:alias"`,
		":web":                         "no remote before the colon",
		"web//1":                       "empty part",
		"/web":                         "empty part",
		"web/":                         "empty part",
		"images:../1.0":                `has the part ".."`,
		"docker:nginx:":                "is not a tag",
		"docker:nginx:a:b":             "is not a tag",
		"docker::1.27":                 "no name",
		"docker:nginx@1.27":            "not a digest",
		"docker:nginx@sha256:abc":      "not a digest",
		"docker:@" + digest:            "no name",
		"nginx@" + digest:              `write it as "docker:nginx@`,
		"nginx@1":                      `write it as "docker:nginx@1"`,
		digest:                         "bare digest",
		"docker.io/library/nginx:1.27": `write "docker:library/nginx:1.27"`,
		"-x:web":                       "is not the name of a remote",
		strings.Repeat("a", 600):       "600 characters",
	}
	for ref, want := range cases {
		img, err := ParseImage(ref)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseImage(%q) = %+v, %v; want an error with %q", ref, img, err, want)
		}
	}
}

func FuzzParseImage(f *testing.F) {
	for _, ref := range []string{"web/1.27.3", "docker:library/nginx:1.27@" + digest, hex64, "images:debian/13", "a:b:c@d", "@", "::"} {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		img, err := ParseImage(ref)
		if err != nil {
			return
		}
		again, err := ParseImage(img.String())
		if err != nil || again != img || img.String() != ref {
			t.Fatalf("ParseImage(%q) = %+v, written %q, read again %+v, %v", ref, img, img, again, err)
		}
		if (img.Alias == "") == (img.Fingerprint == "") {
			t.Fatalf("ParseImage(%q) = %+v: neither alias nor fingerprint, or both", ref, img)
		}
	})
}
