package provider_test

import "testing"

// All members are away when image is changed: nothing can be made, and state takes the new text over. What is made when the node is
// back has to come from what the new text leads to.
func TestImageChangedWhileItsNodeIsAwayIsRolledOutLater(t *testing.T) {
	for _, kind := range []string{appType, machineType} {
		t.Run(kind, func(t *testing.T) {
			w := newCluster(t)
			r, config, to := w.app(), counted(1), counted(1, values{"image": "web/1.1.0"})
			if kind == machineType {
				r, config, to = w.machine(), nas(probed), nas(probed, values{"image": "web/1.1.0"})
			}
			r.mustApply(config)
			old := at(r.state, "image_fingerprint")
			was, _ := w.incus.Instance(w.incus.Names()[0])
			w.incus.OfflineMember(was.Location)
			w.mustNot("refresh", r.refresh())
			if hasError(r.apply(to)) {
				return // refused: just as well
			}
			w.incus.OnlineMember(was.Location)
			w.mustNot("refresh", r.refresh())
			r.mustApply(to)
			now, _ := w.incus.Instance(w.incus.Names()[0])
			if got := now.Config["user.homelab-ops.image"]; got == old {
				t.Errorf("%s says that it is %s, and was made from the image of 1.0.0 (%.12s); state: image %s, version %s, image_fingerprint %.12s", now.Name,
					now.Config["user.homelab-ops.version"], got, at(r.state, "image"), at(r.state, "version"), at(r.state, "image_fingerprint"))
			}
			r.mustBeSettled(to)
		})
	}
}
