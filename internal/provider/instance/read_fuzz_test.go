package instance

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
)

// The state is another provider's, of whichever release.
func FuzzReadSource(f *testing.F) {
	for _, state := range []string{
		``, `null`, `[]`, `{}`, `{"name":"old","project":"apps","image":"images:debian/13","profiles":["default"],"config":{"limits.cpu":"2","user.a":null},"running":true,
		"device":[{"name":"eth0","type":"nic","properties":{"network":"br0","type":"x"}},null],"file":[{"content":"x","target_path":"/a","mode":"0644","uid":0},{"source_path":"/x","target_path":"/b"},{"target_path":"/c","append":true},null],"wait_for":[{"type":"ipv4"}]}`,
		`{"name":"old","source_instance":{"project":"a","name":"b"},"running":false,"remote":"far","limits":{"cpu":"1"}}`, `{"type":"virtual-machine","source_file":"/x","file":[{"target_path":"/a"}]}`,
		`{"name":7}`, `{"device":{}}`, `{"source_instance":null,"profiles":null}`,
	} {
		f.Add(int64(0), []byte(state))
	}
	f.Add(int64(1), []byte(`{}`))
	none := types.MapNull(argument.FilesAttribute().GetType().(types.MapType).ElemType)
	f.Fuzz(func(t *testing.T, version int64, state []byte) {
		s, err := readSource(version, state)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without a word", state)
			}
			return
		}
		if version != 0 {
			t.Errorf("version %d was read", version)
		}
		if i := s.instance(); i.Config == nil || i.Devices == nil || i.Profiles == nil {
			t.Errorf("%q: %+v", state, i)
		}
		if (s.Image == "") != (s.withoutImage() != "") || slices.Contains(s.leftBehind(), "") {
			t.Errorf("%q: %q, %q", state, s.withoutImage(), s.leftBehind())
		}
		files := s.files(t.Context(), none).Elements()
		for _, one := range s.Files {
			if _, there := files[one.TargetPath]; one.carried() && s.Type != vm && !there {
				t.Errorf("%q: the file %q is left behind, and nothing says so", state, one.TargetPath)
			}
		}
	})
}
