#include "spawn/plan_run.h"

#include <errno.h>
#include <string.h>
#include "base/switches.h"

/* The closed set of operations. START is not here: sandbox.c creates the process. */
static const struct {
    const char *name;
    const struct atoll_msg_desc *desc;
    atoll_step_fn *fn;
} steps[] = {
    [ATOLL_PLAN_IDS] = {"ids", &atoll_po_ids_desc, atoll_step_ids},
    [ATOLL_PLAN_CGROUP] = {"cgroup", &atoll_po_cgroup_desc, atoll_step_cgroup},
    [ATOLL_PLAN_IMAGE] = {"image", &atoll_po_image_desc, atoll_step_image},
    [ATOLL_PLAN_START] = {"start", &atoll_po_start_desc, NULL},
    [ATOLL_PLAN_DISK] = {"disk", &atoll_po_disk_desc, atoll_step_disk},
    [ATOLL_PLAN_DIRECTORY] = {"directory", &atoll_po_directory_desc, atoll_step_directory},
    [ATOLL_PLAN_FILE] = {"file", &atoll_po_file_desc, atoll_step_file},
    [ATOLL_PLAN_LAYER] = {"layer", &atoll_po_layer_desc, atoll_step_layer},
    [ATOLL_PLAN_OVERLAY] = {"overlay", &atoll_po_overlay_desc, atoll_step_overlay},
    [ATOLL_PLAN_DEV] = {"dev", &atoll_po_dev_desc, atoll_step_dev},
    [ATOLL_PLAN_PROC] = {"proc", &atoll_po_proc_desc, atoll_step_proc},
    [ATOLL_PLAN_COVER] = {"cover", &atoll_po_file_desc, atoll_step_cover},
    [ATOLL_PLAN_HOSTNAME] = {"hostname", &atoll_po_text_desc, atoll_step_hostname},
    [ATOLL_PLAN_LOOPBACK] = {"loopback", NULL, atoll_step_loopback},
    [ATOLL_PLAN_PIVOT] = {"pivot", NULL, atoll_step_pivot},
    [ATOLL_PLAN_RLIMIT] = {"rlimit", &atoll_po_rlimit_desc, atoll_step_rlimit},
    [ATOLL_PLAN_IDENTITY] = {"identity", NULL, atoll_step_identity},
    [ATOLL_PLAN_SECCOMP] = {"seccomp", &atoll_po_bytes_desc, atoll_step_seccomp},
    [ATOLL_PLAN_AGENT] = {"agent", &atoll_po_agent_desc, atoll_step_agent},
    [ATOLL_PLAN_ABORT] = {"abort", NULL, atoll_step_abort},
    [ATOLL_PLAN_RUNSC] = {"runsc", &atoll_po_runsc_desc, atoll_step_runsc},
    [ATOLL_PLAN_READ_ONLY] = {"read_only", &atoll_po_read_only_desc, atoll_step_read_only},
    [ATOLL_PLAN_NETWORK] = {"network", NULL, atoll_step_network},
    [ATOLL_PLAN_BIND] = {"bind", &atoll_po_bind_desc, atoll_step_bind},
    [ATOLL_PLAN_FOLDER] = {"folder", &atoll_po_folder_desc, atoll_step_folder},
};

/* Room for the largest step message. */
union any_step {
    struct atoll_po_ids ids;
    struct atoll_po_proc proc;
    struct atoll_po_file file;
    struct atoll_po_agent agent;
    struct atoll_po_overlay overlay;
    struct atoll_po_read_only read_only;
    struct atoll_po_directory directory;
    struct atoll_po_bind bind;
    struct atoll_po_folder folder;
};

void atoll_plan_run_init(struct atoll_plan_run *b, const struct atoll_spawn_host *host,
                         const char *id)
{
    *b = (struct atoll_plan_run){
        .host = host,
        .id = id,
        .listen_fd = ATOLL_NO_FD,
        .userns_fd = ATOLL_NO_FD,
        .netns_fd = ATOLL_NO_FD,
        .layer_userns_fd = ATOLL_NO_FD,
        .image_fd = ATOLL_NO_FD,
        .boot_id_fd = ATOLL_NO_FD,
        .views = ATOLL_VIEW_FDS_NONE,
        .oom_fd = ATOLL_NO_FD,
        .peak_fd = ATOLL_NO_FD,
        .status_fd = ATOLL_NO_FD,
        .go_fd = ATOLL_NO_FD,
        .state_fd = ATOLL_NO_FD,
        .mount_fd = ATOLL_NO_FD,
        .upper_fd = ATOLL_NO_FD,
        .root_fd = ATOLL_NO_FD,
    };
}

void atoll_plan_run_done(struct atoll_plan_run *b)
{
    int *const fds[] = {&b->listen_fd,  &b->userns_fd, &b->layer_userns_fd, &b->image_fd,
                        &b->oom_fd,     &b->peak_fd,   &b->status_fd,       &b->go_fd,
                        &b->state_fd,   &b->mount_fd,  &b->upper_fd,        &b->root_fd,
                        &b->boot_id_fd, &b->netns_fd};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++)
        if (*fds[i] >= 0)
            (void)close(ATOLL_TAKE_FD(*fds[i]));
    for (size_t i = 0; i < ATOLL_VIEW_COUNT; i++)
        if (b->views.file[i] >= 0)
            (void)close(ATOLL_TAKE_FD(b->views.file[i]));
    for (size_t i = 0; i < ATOLL_CGF_COUNT; i++)
        if (b->views.source[i] >= 0)
            (void)close(ATOLL_TAKE_FD(b->views.source[i]));
}

uid_t atoll_plan_run_owner(const struct atoll_plan_run *b)
{
    return b->ids.mode == ATOLL_IDS_RANGE && !atoll_weakened("quota_owner") ? b->ids.outside : 0;
}

uint32_t atoll_plan_run_outside(const struct atoll_plan_run *b, uint32_t inside)
{
    if (b->ids.mode == ATOLL_IDS_RANGE)
        return b->ids.outside + inside;
    return b->ids.mode == ATOLL_IDS_SINGLE ? b->ids.inside : inside;
}

const char *atoll_plan_run_step_name(enum atoll_plan_op op)
{
    return (size_t)op < ATOLL_ARRAY_LEN(steps) && steps[op].name ? steps[op].name : "unknown";
}

int atoll_plan_run_step(struct atoll_plan_run *b, const struct atoll_plan_step *step,
                        struct atoll_error *err)
{
    union any_step message;
    const struct atoll_msg_desc *desc;
    int r;

    if ((size_t)step->op >= ATOLL_ARRAY_LEN(steps) || !steps[step->op].fn)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "unknown operation %d",
                          (int)step->op);
    r = atoll_faultf("spawn.%s", steps[step->op].name);
    if (r != 0)
        return atoll_fail_errno(err, r, "fault");
    desc = steps[step->op].desc;
    if (!desc)
        return steps[step->op].fn(b, NULL, err);
    if (desc->size > sizeof(message))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EMSGSIZE, "message of %s is too large",
                          desc->name);
    r = atoll_msg_decode(desc, step->payload, step->len, &message, err);
    if (r < 0)
        return r;
    r = steps[step->op].fn(b, &message, err);
    atoll_msg_done(desc, &message);
    return r;
}
