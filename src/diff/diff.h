#pragma once

/*
 * atoll-diff: what differs between two trees of layers. Layers of tenants are hostile, so it runs in a builder
 * sandbox that has them as raw trees (struct atoll_tree in sandbox/spec.h). A static program.
 *
 *   atoll-diff [OPTION…] FROM TO
 *     FROM, TO   views: directories of layers as they are on disk, topmost first, separated by ":". A last "/" is
 *                the root of the sandbox, below all of them. "" is an empty tree
 *     --patch            a patch that `git apply` takes, instead of JSON
 *     --below DIR        only this directory or file; the paths of a patch are relative to it
 *     --max-lines N      of JSON (default 10000); all changes are counted
 *     --max-bytes N      of a patch (default 16 MiB); a longer one is an error
 *
 *   atoll-diff --merge OURS [--prefer ours|theirs] [--stream] [--since VIEW] BASE THEIRS
 *     what leads from BASE to THEIRS, for a tree that is OURS now (diff/merge.h). Lines of JSON:
 *     {"path", "kind": "added|changed|removed", "joined": bool}, {"conflict": PATH, "ours", "theirs"} and at the end
 *     {"summary": {"changes", "conflicts"}}. --stream: the bytes that --apply takes, without conflicts.
 *     --since: OURS was made from this view, and only conflicts with what it has changed since are printed
 *   atoll-diff --apply
 *     carries out such a stream from stdin in the root, or nothing if it is not whole. A path that has changed since
 *     the merge looked at it is left, and printed as a conflict
 *
 * JSON: one object on each line.
 *   {"path", "kind": "added|changed|removed|type", "content": bool, "before"?, "after"?}
 *     before, after: {"type": "file|directory|link|fifo|device", "mode", "uid", "gid", "size"}
 *     content: the bytes of a file differ, not only its mode or owner
 *   and at the end {"summary": {"added", "changed", "removed", "type", "bytes", "truncated"}}
 *
 * What every sandbox has of its own is left out: /dev, /proc, /sys, /.atoll, /run/atoll, /etc/hosts, /etc/hostname and
 * /etc/resolv.conf, and the directories /etc, /home, /home/user, /run and /tmp themselves. A patch also leaves out what is
 * called .git.
 *
 * Exit status 0, also if nothing differs. One line on stderr and status 1 otherwise, with the kind of the error
 * before it: "resource_exhausted: …"; 2: wrong usage.
 *
 * Where it is in every sandbox: ATOLL_DIFF_PROGRAM (sandbox/programs.h).
 */
