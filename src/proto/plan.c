#include "proto/plan.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

ATOLL_MSG_DESC(atoll_po_ids, ATOLL_MSG_FIELD(U32, atoll_po_ids, mode),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, inside),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, outside),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, count),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, outside_gid),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, agent_uid),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, agent_gid),
               ATOLL_MSG_FIELD(U32, atoll_po_ids, layer_base));

ATOLL_MSG_DESC(atoll_po_cgroup, ATOLL_MSG_FIELD(U64, atoll_po_cgroup, memory_bytes),
               ATOLL_MSG_FIELD(U32, atoll_po_cgroup, cpu_millis),
               ATOLL_MSG_FIELD(U32, atoll_po_cgroup, pids));

ATOLL_MSG_DESC(atoll_po_image, ATOLL_MSG_FIELD(STR, atoll_po_image, source),
               ATOLL_MSG_FIELD(U8, atoll_po_image, keep),
               ATOLL_MSG_FIELD(U8, atoll_po_image, existing),
               ATOLL_MSG_FIELD(U8, atoll_po_image, cow));

ATOLL_MSG_DESC(atoll_po_start, ATOLL_MSG_FIELD(U8, atoll_po_start, new_network),
               ATOLL_MSG_FIELD(U8, atoll_po_start, own_clock));

ATOLL_MSG_DESC(atoll_po_disk, ATOLL_MSG_FIELD(U32, atoll_po_disk, kind),
               ATOLL_MSG_FIELD(U64, atoll_po_disk, size_bytes),
               ATOLL_MSG_FIELD(U64, atoll_po_disk, inodes),
               ATOLL_MSG_FIELD(U64, atoll_po_disk, io_bytes));

ATOLL_MSG_DESC(atoll_po_layer, ATOLL_MSG_FIELD(STR, atoll_po_layer, slot),
               ATOLL_MSG_FIELD(STR, atoll_po_layer, source),
               ATOLL_MSG_FIELD(U32, atoll_po_layer, disk_base));

ATOLL_MSG_DESC(atoll_po_overlay, ATOLL_MSG_FIELD(STR, atoll_po_overlay, target),
               ATOLL_MSG_FIELD(STR, atoll_po_overlay, lowers),
               ATOLL_MSG_FIELD(U8, atoll_po_overlay, writable),
               ATOLL_MSG_FIELD(STRV, atoll_po_overlay, stack),
               ATOLL_MSG_FIELD(U8, atoll_po_overlay, userxattr),
               ATOLL_MSG_FIELD(STR, atoll_po_overlay, below),
               ATOLL_MSG_FIELD(STR, atoll_po_overlay, within));

ATOLL_MSG_DESC(atoll_po_bind, ATOLL_MSG_FIELD(U32, atoll_po_bind, kind),
               ATOLL_MSG_FIELD(STR, atoll_po_bind, target),
               ATOLL_MSG_FIELD(U32, atoll_po_bind, mode),
               ATOLL_MSG_FIELD(BYTES, atoll_po_bind, content),
               ATOLL_MSG_FIELD(STR, atoll_po_bind, name));

ATOLL_MSG_DESC(atoll_po_folder, ATOLL_MSG_FIELD(STR, atoll_po_folder, path),
               ATOLL_MSG_FIELD(STR, atoll_po_folder, target),
               ATOLL_MSG_FIELD(U32, atoll_po_folder, access),
               ATOLL_MSG_FIELD(U32, atoll_po_folder, uid),
               ATOLL_MSG_FIELD(U32, atoll_po_folder, gid),
               ATOLL_MSG_FIELD(U32, atoll_po_folder, number));

ATOLL_MSG_DESC(atoll_po_directory, ATOLL_MSG_FIELD(STR, atoll_po_directory, path),
               ATOLL_MSG_FIELD(U32, atoll_po_directory, mode),
               ATOLL_MSG_FIELD(U32, atoll_po_directory, uid),
               ATOLL_MSG_FIELD(U32, atoll_po_directory, gid));

ATOLL_MSG_DESC(atoll_po_file, ATOLL_MSG_FIELD(STR, atoll_po_file, path),
               ATOLL_MSG_FIELD(U32, atoll_po_file, mode),
               ATOLL_MSG_FIELD(BYTES, atoll_po_file, content));

ATOLL_MSG_DESC(atoll_po_proc, ATOLL_MSG_FIELD(STRV, atoll_po_proc, masked),
               ATOLL_MSG_FIELD(STRV, atoll_po_proc, read_only),
               ATOLL_MSG_FIELD(U8, atoll_po_proc, views),
               ATOLL_MSG_FIELD(BYTES, atoll_po_proc, cpu));

ATOLL_MSG_DESC(atoll_po_dev, ATOLL_MSG_FIELD(U64, atoll_po_dev, shm_bytes),
               ATOLL_MSG_FIELD(U64, atoll_po_dev, shm_inodes),
               ATOLL_MSG_FIELD(U32, atoll_po_dev, max_ptys));

ATOLL_MSG_DESC(atoll_po_read_only, ATOLL_MSG_FIELD(STRV, atoll_po_read_only, mounts),
               ATOLL_MSG_FIELD(STRV, atoll_po_read_only, writable));

ATOLL_MSG_DESC(atoll_po_text, ATOLL_MSG_FIELD(STR, atoll_po_text, text));

ATOLL_MSG_DESC(atoll_po_rlimit, ATOLL_MSG_FIELD(U32, atoll_po_rlimit, resource),
               ATOLL_MSG_FIELD(U64, atoll_po_rlimit, soft),
               ATOLL_MSG_FIELD(U64, atoll_po_rlimit, hard));

ATOLL_MSG_DESC(atoll_po_bytes, ATOLL_MSG_FIELD(BYTES, atoll_po_bytes, bytes));

ATOLL_MSG_DESC(atoll_po_agent, ATOLL_MSG_FIELD(U8, atoll_po_agent, allow_sudo),
               ATOLL_MSG_FIELD(U8, atoll_po_agent, many_ids),
               ATOLL_MSG_FIELD(STR, atoll_po_agent, user),
               ATOLL_MSG_FIELD(STR, atoll_po_agent, home),
               ATOLL_MSG_FIELD(U32, atoll_po_agent, uid), ATOLL_MSG_FIELD(U32, atoll_po_agent, gid),
               ATOLL_MSG_FIELD(U64, atoll_po_agent, memory_limit_bytes));

ATOLL_MSG_DESC(atoll_po_runsc, ATOLL_MSG_FIELD(STR, atoll_po_runsc, program),
               ATOLL_MSG_FIELD(STR, atoll_po_runsc, platform),
               ATOLL_MSG_FIELD(BYTES, atoll_po_runsc, config),
               ATOLL_MSG_FIELD(U8, atoll_po_runsc, network));

struct step_header {
    uint16_t op, zero;
    uint32_t len;
};

int atoll_plan_add(struct atoll_buf *plan, enum atoll_plan_op op, const struct atoll_msg_desc *desc,
                   const void *step)
{
    size_t before = atoll_buf_size(plan);
    struct step_header h = {.op = htole16((uint16_t)op)};
    int r = atoll_buf_append(plan, &h, sizeof(h));

    if (r == 0 && desc)
        r = atoll_msg_encode(desc, step, plan);
    if (r < 0)
        return r;
    h.len = htole32((uint32_t)(atoll_buf_size(plan) - before - sizeof(h)));
    memcpy(plan->data + plan->off + before, &h, sizeof(h));
    return 0;
}

int atoll_plan_next(const uint8_t **bytes, size_t *n, struct atoll_plan_step *ret_step)
{
    struct step_header h;

    if (*n == 0)
        return 0;
    if (*n < sizeof(h))
        return -EBADMSG;
    memcpy(&h, *bytes, sizeof(h));
    h.len = le32toh(h.len);
    if (h.zero != 0 || h.len > *n - sizeof(h))
        return -EBADMSG;
    *ret_step = (struct atoll_plan_step){le16toh(h.op), *bytes + sizeof(h), h.len};
    *bytes += sizeof(h) + h.len;
    *n -= sizeof(h) + h.len;
    return 1;
}
