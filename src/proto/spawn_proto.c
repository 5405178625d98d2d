#include "proto/spawn_proto.h"

ATOLL_MSG_DESC(atoll_sm_hello, ATOLL_MSG_FIELD(U32, atoll_sm_hello, version),
               ATOLL_MSG_FIELD(U32, atoll_sm_hello, pid), ATOLL_MSG_FIELD(U8, atoll_sm_hello, root),
               ATOLL_MSG_FIELD(U32, atoll_sm_hello, cgroup_version),
               ATOLL_MSG_FIELD(U32, atoll_sm_hello, id_base),
               ATOLL_MSG_FIELD(U32, atoll_sm_hello, id_slots),
               ATOLL_MSG_FIELD(STR, atoll_sm_hello, instance),
               ATOLL_MSG_FIELD(STR, atoll_sm_hello, cgroup_path),
               ATOLL_MSG_FIELD(U32, atoll_sm_hello, cgroup_lacks),
               ATOLL_MSG_FIELD(BYTES, atoll_sm_hello, id_more),
               ATOLL_MSG_FIELD(U8, atoll_sm_hello, hides),
               ATOLL_MSG_FIELD(U32, atoll_sm_hello, gives));

ATOLL_MSG_DESC(atoll_sm_ids, ATOLL_MSG_FIELD(U32, atoll_sm_ids, base),
               ATOLL_MSG_FIELD(U32, atoll_sm_ids, slots));

ATOLL_MSG_DESC(atoll_sm_create, ATOLL_MSG_FIELD(STR, atoll_sm_create, id),
               ATOLL_MSG_FIELD(BYTES, atoll_sm_create, plan));

ATOLL_MSG_DESC(atoll_sm_created, ATOLL_MSG_FIELD(STR, atoll_sm_created, id),
               ATOLL_MSG_FIELD(U32, atoll_sm_created, pid),
               ATOLL_MSG_FIELD(U64, atoll_sm_created, boot_us));

ATOLL_MSG_DESC(atoll_sm_error, ATOLL_MSG_FIELD(U32, atoll_sm_error, kind),
               ATOLL_MSG_FIELD(I32, atoll_sm_error, errnum),
               ATOLL_MSG_FIELD(STR, atoll_sm_error, text),
               ATOLL_MSG_FIELD(STR, atoll_sm_error, step));

ATOLL_MSG_DESC(atoll_sm_ref, ATOLL_MSG_FIELD(STR, atoll_sm_ref, id),
               ATOLL_MSG_FIELD(U32, atoll_sm_ref, outside),
               ATOLL_MSG_FIELD(U32, atoll_sm_ref, outside_gid),
               ATOLL_MSG_FIELD(U32, atoll_sm_ref, count));

ATOLL_MSG_DESC(atoll_sm_copy, ATOLL_MSG_FIELD(STR, atoll_sm_copy, from),
               ATOLL_MSG_FIELD(STR, atoll_sm_copy, to));

ATOLL_MSG_DESC(atoll_sm_remove, ATOLL_MSG_FIELD(STR, atoll_sm_remove, id),
               ATOLL_MSG_FIELD(U8, atoll_sm_remove, keep_disk),
               ATOLL_MSG_FIELD(U8, atoll_sm_remove, unwritten));

ATOLL_MSG_DESC(atoll_sm_freeze, ATOLL_MSG_FIELD(STR, atoll_sm_freeze, id),
               ATOLL_MSG_FIELD(U8, atoll_sm_freeze, frozen));

ATOLL_MSG_DESC(atoll_sm_exited, ATOLL_MSG_FIELD(STR, atoll_sm_exited, id),
               ATOLL_MSG_FIELD(I32, atoll_sm_exited, code),
               ATOLL_MSG_FIELD(I32, atoll_sm_exited, signal),
               ATOLL_MSG_FIELD(U64, atoll_sm_exited, oom_kills),
               ATOLL_MSG_FIELD(U64, atoll_sm_exited, memory_peak_bytes),
               ATOLL_MSG_FIELD(U64, atoll_sm_exited, cpu_us));

ATOLL_MSG_DESC(atoll_sm_limit, ATOLL_MSG_FIELD(STR, atoll_sm_limit, id),
               ATOLL_MSG_FIELD(U64, atoll_sm_limit, memory_bytes),
               ATOLL_MSG_FIELD(U32, atoll_sm_limit, cpu_millis),
               ATOLL_MSG_FIELD(U32, atoll_sm_limit, pids));

ATOLL_MSG_DESC(atoll_sm_commit, ATOLL_MSG_FIELD(STR, atoll_sm_commit, id),
               ATOLL_MSG_FIELD(STR, atoll_sm_commit, path),
               ATOLL_MSG_FIELD(STR, atoll_sm_commit, layer));

ATOLL_MSG_DESC(atoll_sm_snapshot, ATOLL_MSG_FIELD(STR, atoll_sm_snapshot, id),
               ATOLL_MSG_FIELD(STR, atoll_sm_snapshot, layer),
               ATOLL_MSG_FIELD(U32, atoll_sm_snapshot, outside),
               ATOLL_MSG_FIELD(U32, atoll_sm_snapshot, layer_base),
               ATOLL_MSG_FIELD(U8, atoll_sm_snapshot, userxattr));

ATOLL_MSG_DESC(atoll_sm_layer, ATOLL_MSG_FIELD(U64, atoll_sm_layer, bytes),
               ATOLL_MSG_FIELD(U64, atoll_sm_layer, files),
               ATOLL_MSG_FIELD(U64, atoll_sm_layer, frozen_us),
               ATOLL_MSG_FIELD(U64, atoll_sm_layer, flush_us));

ATOLL_MSG_DESC(atoll_sm_disk, ATOLL_MSG_FIELD(BYTES, atoll_sm_disk, file_system),
               ATOLL_MSG_FIELD(U64, atoll_sm_disk, subvolume));
