#pragma once
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/fd.h"
#include "proto/spawn_proto.h"
#include "provider/pool_image.h"
#include "provider/spawn_client.h"
#include "sandbox/host_template.h"
#include "sandbox/seccomp.h"
#include "sys/tree.h"
#include "test.h"

/*
 * A real atoll-spawn with a state directory of its own, and a blocking client of it.
 */

struct fixture {
    char state[64];
    bool rootless;
    struct atoll_spawn_info info;
    struct atoll_channel channel;
    struct atoll_buf seccomp;
    uint32_t next_id;
    pid_t spawn_pid;
};

/* The last answer, decoded as far as the tests need it. */
struct answer {
    bool got, ok;
    struct atoll_error error;
    uint32_t pid;
    struct atoll_sm_layer layer; /* of COMMIT and SNAPSHOT */
    int fds[ATOLL_FD_PASS_MAX];
    size_t nfds;
};

static inline int on_frame(void *arg, struct atoll_frame *frame)
{
    struct answer *a = arg;
    struct atoll_error err;
    struct atoll_sm_error failed;
    struct atoll_sm_created created;

    if (frame->id == 0)
        return 0;
    a->got = true;
    a->ok = frame->type == ATOLL_SPAWN_REPLY;
    a->nfds = frame->nfds;
    memcpy(a->fds, frame->fds, frame->nfds * sizeof(frame->fds[0]));
    if (a->ok && frame->len > 0 &&
        atoll_msg_decode(&atoll_sm_created_desc, frame->payload, frame->len, &created, &err) == 0)
        a->pid = created.pid;
    if (a->ok && frame->len > 0)
        (void)!atoll_msg_decode(&atoll_sm_layer_desc, frame->payload, frame->len, &a->layer, &err);
    if (!a->ok) {
        assert_int_equal(
            atoll_msg_decode(&atoll_sm_error_desc, frame->payload, frame->len, &failed, &err), 0);
        (void)atoll_fail(&a->error, (enum atoll_error_kind)failed.kind, failed.errnum, "%s",
                         failed.text);
    }
    return 0;
}

static inline struct answer ask(struct fixture *f, uint16_t type, const struct atoll_msg_desc *desc,
                                const void *msg)
{
    struct answer a = {0};

    assert_int_equal(atoll_channel_send(&f->channel, type, ++f->next_id, desc, msg, NULL, 0), 0);
    while (!a.got) {
        struct pollfd p = {.fd = f->channel.fd, .events = POLLIN};
        assert_true(atoll_channel_flush(&f->channel) >= 0);
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_true(atoll_channel_receive(&f->channel, on_frame, &a) >= 0);
    }
    return a;
}

/* Starts it in a state directory of its own. */
static inline int try_setup(struct fixture *f, const char *build, int *ret_fd,
                            struct atoll_error *err)
{
    char program[4096];

    (void)snprintf(f->state, sizeof(f->state), "/tmp/atoll-steps-XXXXXX");
    assert_non_null(mkdtemp(f->state));
    assert_int_equal(atoll_host_template_make(f->state, build, err), 0);
    if (geteuid() == 0 && atoll_pool_image_make(f->state, err) < 0)
        print_message("no disk pool: %s\n", err->text);
    (void)snprintf(program, sizeof(program), "%s/atoll-spawn", build);
    return atoll_spawn_connect(f->state, program, NULL, ret_fd, &f->info, err);
}

/* Without root, a second try: its cgroups are named after the inode of the directory, and those of an
 * atoll-spawn of root that was killed may have that name. */
static inline int setup(void **state)
{
    const char *build = getenv("ATOLL_BUILD_DIR");
    char first[sizeof(((struct fixture *)0)->state)];
    struct atoll_error err = {0};
    struct fixture *f;
    int fd, r;

    if (!build)
        return 0;
    f = calloc(1, sizeof(*f));
    f->rootless = geteuid() != 0;
    r = try_setup(f, build, &fd, &err);
    if (r < 0 && f->rootless) {
        memcpy(first, f->state, sizeof(first));
        r = try_setup(f, build, &fd, &err);
        assert_int_equal(atoll_tree_remove(AT_FDCWD, first), 0);
    }
    if (r < 0)
        fail_msg("%s", err.text);
    assert_int_equal(atoll_channel_init(&f->channel, fd, 1024 * 1024), 0);
    atoll_buf_init(&f->seccomp, 65536);
    assert_int_equal(atoll_seccomp_build(&f->seccomp, &err), 0);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;

    if (!f)
        return 0;
    (void)!atoll_channel_send(&f->channel, ATOLL_SPAWN_END, 0, NULL, NULL, NULL, 0);
    (void)!atoll_channel_flush(&f->channel);
    (void)usleep(100000);
    atoll_channel_done(&f->channel);
    atoll_buf_done(&f->seccomp);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->state), 0);
    free(f);
    return 0;
}

/* The fixture; skips the test if it could not be made. */
static inline struct fixture *need(void **state)
{
    if (!*state)
        skip();
    return *state;
}

static inline struct answer ask_create(struct fixture *f, const char *id,
                                       const struct atoll_buf *plan)
{
    struct atoll_sm_create create = {id, {atoll_buf_head(plan), atoll_buf_size(plan)}};
    return ask(f, ATOLL_SPAWN_CREATE, &atoll_sm_create_desc, &create);
}
