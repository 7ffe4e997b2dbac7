// Package image builds small Incus images for the lab out of Debian packages.
//
// A root file system is the packages' content (resolved, fetched and verified by apt in a root of its own, unpacked
// without a chroot and without maintainer scripts), a static busybox as init, and one service. It is packed as a split
// image: a tar file with the metadata and a squashfs. An image of 10 to 40 MB takes a few seconds to build, has an
// address a second after it was started, and is kept in a cache, so that it is built once per machine.
//
// In an instance, init starts the service with the environment that Incus gave to init, starts it again when it ends,
// and at `incus stop` lets it finish what it does.
package image
