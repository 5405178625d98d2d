/*
 * What atoll-spawn gets from the daemon, which may be somebody else's by then: plans, and the frames
 * around them. Every step is decoded; those that make files and directories are carried out in a
 * directory of their own, and nothing may appear outside it; so are the mount points of BIND, in a root
 * with a link to what the step names. The first byte chooses between a plan and
 * frames.
 */
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "fuzz.h"
#include "proto/spawn_proto.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "sys/tree.h"

#define NOBODY 65534

static const struct atoll_msg_desc *const steps[] = {
    [ATOLL_PLAN_IDS] = &atoll_po_ids_desc,
    [ATOLL_PLAN_CGROUP] = &atoll_po_cgroup_desc,
    [ATOLL_PLAN_IMAGE] = &atoll_po_image_desc,
    [ATOLL_PLAN_START] = &atoll_po_start_desc,
    [ATOLL_PLAN_DISK] = &atoll_po_disk_desc,
    [ATOLL_PLAN_DIRECTORY] = &atoll_po_directory_desc,
    [ATOLL_PLAN_FILE] = &atoll_po_file_desc,
    [ATOLL_PLAN_LAYER] = &atoll_po_layer_desc,
    [ATOLL_PLAN_OVERLAY] = &atoll_po_overlay_desc,
    [ATOLL_PLAN_DEV] = &atoll_po_dev_desc,
    [ATOLL_PLAN_PROC] = &atoll_po_proc_desc,
    [ATOLL_PLAN_COVER] = &atoll_po_file_desc,
    [ATOLL_PLAN_HOSTNAME] = &atoll_po_text_desc,
    [ATOLL_PLAN_RLIMIT] = &atoll_po_rlimit_desc,
    [ATOLL_PLAN_SECCOMP] = &atoll_po_bytes_desc,
    [ATOLL_PLAN_AGENT] = &atoll_po_agent_desc,
    [ATOLL_PLAN_RUNSC] = &atoll_po_runsc_desc,
    [ATOLL_PLAN_READ_ONLY] = &atoll_po_read_only_desc,
    [ATOLL_PLAN_BIND] = &atoll_po_bind_desc,
    [ATOLL_PLAN_FOLDER] = &atoll_po_folder_desc,
};

static const struct atoll_msg_desc *const requests[] = {
    &atoll_sm_hello_desc,  &atoll_sm_create_desc, &atoll_sm_created_desc, &atoll_sm_error_desc,
    &atoll_sm_ref_desc,    &atoll_sm_exited_desc, &atoll_sm_limit_desc,   &atoll_sm_commit_desc,
    &atoll_sm_remove_desc, &atoll_sm_freeze_desc,
};

/* A message that was understood is encoded to something that is understood in the same way. */
static void check_message(const struct atoll_msg_desc *desc, const uint8_t *bytes, size_t n)
{
    uint64_t msg[32], again[32];
    struct atoll_buf one, two;
    struct atoll_error err;

    FUZZ_CHECK(desc->size <= sizeof(msg));
    if (atoll_msg_decode(desc, bytes, n, msg, &err) < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
        return;
    }
    atoll_buf_init(&one, (size_t)1024 * 1024);
    atoll_buf_init(&two, (size_t)1024 * 1024);
    FUZZ_CHECK(atoll_msg_encode(desc, msg, &one) == 0);
    FUZZ_CHECK(atoll_msg_decode(desc, atoll_buf_head(&one), atoll_buf_size(&one), again, NULL) ==
               0);
    FUZZ_CHECK(atoll_msg_encode(desc, again, &two) == 0);
    FUZZ_CHECK(atoll_buf_size(&one) == atoll_buf_size(&two));
    FUZZ_CHECK(memcmp(atoll_buf_head(&one), atoll_buf_head(&two), atoll_buf_size(&one)) == 0);
    atoll_msg_done(desc, msg);
    atoll_msg_done(desc, again);
    atoll_buf_done(&one);
    atoll_buf_done(&two);
}

/* Carrying out: in u of a directory that holds nothing else. */

static char scratch[64];

static void leave(void)
{
    (void)!atoll_tree_remove(AT_FDCWD, scratch);
}

static void enter(void)
{
    if (*scratch)
        return;
    (void)snprintf(scratch, sizeof(scratch), "%s/atoll-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(scratch) && chmod(scratch, 0755) == 0);
    (void)atexit(leave);
    if (geteuid() == 0)
        FUZZ_CHECK(chown(scratch, NOBODY, NOBODY) == 0);
}

static void check_alone(void)
{
    DIR *list = opendir(scratch);
    const struct dirent *entry;
    struct stat st;

    FUZZ_CHECK(list && fstat(dirfd(list), &st) == 0 && (st.st_mode & 07777) == 0755);
    while ((entry = readdir(list)))
        FUZZ_CHECK(entry->d_name[0] == '.' ? strlen(entry->d_name) <= 2
                                           : strcmp(entry->d_name, "u") == 0 ||
                                                 strcmp(entry->d_name, ATOLL_DISK_POINTS) == 0);
    (void)closedir(list);
}

static void carry_out(struct atoll_plan_run *b, const struct atoll_plan_step *step)
{
    struct atoll_error err = {0};
    int r = atoll_plan_run_step(b, step, &err);

    FUZZ_CHECK(r == 0 || strnlen(err.text, sizeof(err.text)) < sizeof(err.text));
    check_alone();
}

/* With the rights of nobody: should a path lead out after all, it leads to nothing. */
static void open_layer(struct atoll_plan_run *b)
{
    static const struct atoll_spawn_host host;
    int top;

    enter();
    if (geteuid() == 0)
        FUZZ_CHECK(setegid(NOBODY) == 0 && seteuid(NOBODY) == 0);
    top = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(top >= 0 && mkdirat(top, "u", 0755) == 0);
    atoll_plan_run_init(b, &host, "fuzz");
    b->ids = (struct atoll_po_ids){.mode = ATOLL_IDS_SINGLE, .inside = geteuid(), .count = 1};
    b->upper_fd = openat(top, "u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(b->upper_fd >= 0);
    (void)close(top);
}

static void close_layer(struct atoll_plan_run *b)
{
    atoll_plan_run_done(b);
    if (getuid() == 0) /* a directory may have been made that its owner cannot enter */
        FUZZ_CHECK(seteuid(0) == 0 && setegid(0) == 0);
    leave();
    FUZZ_CHECK(mkdir(scratch, 0755) == 0 && (getuid() != 0 || chown(scratch, NOBODY, NOBODY) == 0));
}

/* Only the mount point: mounting takes more rights. */
static void make_point(struct atoll_plan_run *b, const struct atoll_plan_step *step)
{
    struct atoll_po_bind bind;
    struct atoll_error err = {0};
    int fd;

    if (atoll_msg_decode(&atoll_po_bind_desc, step->payload, step->len, &bind, &err) < 0)
        return;
    if (b->root_fd < 0)
        b->root_fd = fcntl(b->upper_fd, F_DUPFD_CLOEXEC, 0);
    b->plain_disk = true;
    (void)!symlinkat(bind.name, b->root_fd, "link");
    FUZZ_CHECK(b->root_fd >= 0 && chdir(scratch) == 0);
    fd = atoll_point_open(b, bind.target, bind.kind != ATOLL_BIND_FILE, &err);
    FUZZ_CHECK(chdir("/") == 0);
    FUZZ_CHECK(fd >= 0 || *err.text);
    if (fd >= 0)
        (void)close(fd);
    check_alone();
}

static void fuzz_plan(const uint8_t *bytes, size_t n)
{
    const uint8_t *end = bytes + n;
    struct atoll_plan_step step;
    struct atoll_plan_run b;
    bool is_open = false;
    int r;

    while ((r = atoll_plan_next(&bytes, &n, &step)) > 0) {
        const struct atoll_msg_desc *desc =
            step.op < ATOLL_ARRAY_LEN(steps) ? steps[step.op] : NULL;
        FUZZ_CHECK(bytes + n == end && step.payload + step.len == bytes);
        (void)atoll_plan_run_step_name(step.op);
        if (desc)
            check_message(desc, step.payload, step.len);
        if (step.op == ATOLL_PLAN_DIRECTORY || step.op == ATOLL_PLAN_FILE ||
            step.op == ATOLL_PLAN_BIND) {
            if (!is_open)
                open_layer(&b);
            is_open = true;
            if (step.op == ATOLL_PLAN_BIND)
                make_point(&b, &step);
            else
                carry_out(&b, &step);
        }
    }
    FUZZ_CHECK(r == 0 || r == -EBADMSG);
    if (is_open)
        close_layer(&b);
}

static void fuzz_frames(const uint8_t *bytes, size_t n)
{
    while (n >= ATOLL_FRAME_HEADER) {
        uint32_t len;
        uint16_t type;
        memcpy(&len, bytes, sizeof(len));
        memcpy(&type, bytes + 4, sizeof(type));
        len = ATOLL_MIN(le32toh(len), (uint32_t)(n - ATOLL_FRAME_HEADER));
        check_message(requests[le16toh(type) % ATOLL_ARRAY_LEN(requests)],
                      bytes + ATOLL_FRAME_HEADER, len);
        bytes += ATOLL_FRAME_HEADER + len;
        n -= ATOLL_FRAME_HEADER + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] & 1)
        fuzz_frames(data + 1, size - 1);
    else
        fuzz_plan(data + 1, ATOLL_MIN(size - 1, (size_t)ATOLL_PLAN_MAX));
    return 0;
}
