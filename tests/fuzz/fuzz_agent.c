/*
 * What the agent parses: frames and messages of the daemon and of sudo clients, the tenant's
 * /etc/passwd and /etc/group, paths, and what sudo is to run. The first byte chooses which; for frames
 * it also gives the size of the pieces, on which nothing may depend.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "agent/agent_internal.h"
#include "fuzz.h"
#include "proto/sudo_proto.h"
/* Included, not linked: up to the point where a command is started. */
#include "agent/sudo_command.c"

/* A description for every type number, so that each is reached by some frame. */
static const struct atoll_msg_desc *const descs[] = {
    &atoll_am_hello_desc,  &atoll_am_exec_start_desc, &atoll_am_exec_ref_desc,
    &atoll_am_stdin_desc,  &atoll_am_signal_desc,     &atoll_am_resize_desc,
    &atoll_am_resume_desc, &atoll_am_ack_desc,        &atoll_am_path_desc,
    &atoll_am_list_desc,   &atoll_am_read_desc,       &atoll_am_create_desc,
    &atoll_am_write_desc,  &atoll_am_handle_desc,     &atoll_am_mkdir_desc,
    &atoll_am_chown_desc,  &atoll_am_two_paths_desc,  &atoll_am_chmod_desc,
    &atoll_am_xattr_desc,  &atoll_am_watch_desc,      &atoll_am_connect_desc,
    &atoll_am_output_desc, &atoll_am_exit_desc,       &atoll_am_entry_desc,
    &atoll_sudo_run_desc,  &atoll_sudo_signal_desc,
};

/* What a run said, in order. */
struct transcript {
    struct atoll_buf text;
    int result;
};

/* A message that was understood is encoded to something that is understood in the same way. */
static void check_message(const struct atoll_msg_desc *desc, const void *msg)
{
    uint64_t again[64];
    struct atoll_buf one, two;

    atoll_buf_init(&one, (size_t)1024 * 1024);
    atoll_buf_init(&two, (size_t)1024 * 1024);
    FUZZ_CHECK(desc->size <= sizeof(again));
    FUZZ_CHECK(atoll_msg_encode(desc, msg, &one) == 0);
    FUZZ_CHECK(atoll_msg_decode(desc, atoll_buf_head(&one), atoll_buf_size(&one), again, NULL) ==
               0);
    FUZZ_CHECK(atoll_msg_encode(desc, again, &two) == 0);
    FUZZ_CHECK(atoll_buf_size(&one) == atoll_buf_size(&two));
    FUZZ_CHECK(memcmp(atoll_buf_head(&one), atoll_buf_head(&two), atoll_buf_size(&one)) == 0);
    atoll_msg_done(desc, again);
    atoll_buf_done(&one);
    atoll_buf_done(&two);
}

static int frame_came(void *arg, struct atoll_frame *frame)
{
    struct transcript *t = arg;
    const struct atoll_msg_desc *desc = descs[frame->type % ATOLL_ARRAY_LEN(descs)];
    uint64_t msg[64];
    struct atoll_error err;
    int r = atoll_msg_decode(desc, frame->payload, frame->len, msg, &err);

    FUZZ_CHECK(frame->nfds == 0); /* none were sent */
    FUZZ_CHECK(frame->len <= ATOLL_FRAME_PAYLOAD_MAX);
    FUZZ_CHECK(
        atoll_buf_appendf(&t->text, "%u %u %zu %d\n", frame->type, frame->id, frame->len, r) == 0);
    if (r < 0) {
        FUZZ_CHECK(err.kind == ATOLL_ERR_INVALID_ARGUMENT);
        return 0;
    }
    check_message(desc, msg);
    atoll_msg_done(desc, msg);
    return 0;
}

static void run_frames(const uint8_t *data, size_t size, size_t piece, struct transcript *t)
{
    struct atoll_channel channel;
    int pair[2];

    atoll_buf_init(&t->text, (size_t)16 * 1024 * 1024);
    t->result = 0;
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    FUZZ_CHECK(atoll_channel_init(&channel, pair[0], 1024) == 0);
    for (size_t at = 0; at < size && t->result == 0; at += piece) {
        size_t n = ATOLL_MIN(piece, size - at);
        FUZZ_CHECK(send(pair[1], data + at, n, 0) == (ssize_t)n);
        t->result = atoll_channel_receive(&channel, frame_came, t);
    }
    FUZZ_CHECK(t->result == 0 || t->result == -EBADMSG);
    atoll_channel_done(&channel);
    (void)close(pair[1]);
}

static void fuzz_frames(const uint8_t *data, size_t size, size_t piece)
{
    struct transcript cut, whole;

    size = ATOLL_MIN(size, (size_t)32 * 1024); /* one read, so that "whole" is whole */
    run_frames(data, size, piece, &cut);
    run_frames(data, size, size + 1, &whole);
    FUZZ_CHECK(cut.result == whole.result);
    FUZZ_CHECK(strcmp(atoll_buf_str(&cut.text), atoll_buf_str(&whole.text)) == 0);
    atoll_buf_done(&cut.text);
    atoll_buf_done(&whole.text);
}

/* Makes the agent believe that `text` is what the file holds. */
static void pretend(struct atoll_agent_textfile *file, const char *path, const char *text)
{
    file->text = strdup(text);
    FUZZ_CHECK(file->text);
    file->fresh = fstatat(AT_FDCWD, path, &file->seen, AT_SYMLINK_NOFOLLOW) == 0;
}

static void fuzz_users(const char *text)
{
    struct atoll_agent a = {.config = {.many_ids = true,
                                       .default_user = "user",
                                       .default_home = "/home/user",
                                       .default_uid = 1000,
                                       .default_gid = 1000}};
    static const char *const names[] = {"", "user", "root", "0", "a", "1001", "x:y", "4294967295"};
    char out[ATOLL_AGENT_NAME_MAX];
    uint32_t gid;

    pretend(&a.passwd, "/etc/passwd", text);
    pretend(&a.group, "/etc/group", text);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        struct atoll_agent_user user;
        struct atoll_error err;
        int r = atoll_agent_user_find(&a, names[i], &user, &err);
        FUZZ_CHECK(r == 0 || err.kind == ATOLL_ERR_INVALID_ARGUMENT);
        if (r < 0)
            continue;
        FUZZ_CHECK(user.uid != UINT32_MAX && user.gid != UINT32_MAX);
        FUZZ_CHECK(user.home[0] == '/' && user.shell[0] == '/' && user.name[0] != '\0');
        FUZZ_CHECK(user.group_count >= 1 && user.group_count <= ATOLL_AGENT_GROUPS_MAX);
        FUZZ_CHECK(i > 1 || user.uid == 1000); /* nothing in the file moves the default user */
    }
    (void)!atoll_agent_group_find(&a, "a", &gid, NULL);
    FUZZ_CHECK(*atoll_agent_user_name(&a, 7, out) != '\0');
    FUZZ_CHECK(*atoll_agent_group_name(&a, 7, out) != '\0');
    atoll_agent_users_done(&a);
}

static void fuzz_path(const char *text)
{
    struct atoll_agent_user user = {.home = "/home/user"};
    char out[ATOLL_AGENT_PATH_MAX], again[ATOLL_AGENT_PATH_MAX];
    size_t n;

    if (atoll_agent_path_absolute(&user, text, out, NULL) < 0)
        return;
    n = strlen(out);
    FUZZ_CHECK(out[0] == '/' && n < sizeof(out));
    FUZZ_CHECK(n == 1 || out[n - 1] != '/');
    FUZZ_CHECK(!strstr(out, "//") && !strstr(out, "/./"));
    FUZZ_CHECK(atoll_agent_path_absolute(&user, out, again, NULL) == 0);
    FUZZ_CHECK(strcmp(out, again) == 0);
}

/* What would be run is complete, and the caller's variables come through as asked for. */
static void check_command(const struct plan *p, const struct atoll_sudo_run *run)
{
    FUZZ_CHECK(p->argv[1] && p->user.uid != UINT32_MAX && p->user.shell[0] == '/');
    for (size_t i = 0; p->env.vars[i]; i++)
        FUZZ_CHECK(strchr(p->env.vars[i], '=') > p->env.vars[i]);
    if (!(run->flags & ATOLL_SUDO_KEEP_ENV) && run->vars.len == 0)
        FUZZ_CHECK(!*atoll_agent_env_get(&p->env, "LD_PRELOAD"));
    FUZZ_CHECK(!*p->mark || strlen(p->mark) == MARK_DIGITS);
}

static void fuzz_sudo(const uint8_t *data, size_t size)
{
    struct atoll_agent a = {.config = {.many_ids = true,
                                       .default_user = "user",
                                       .default_home = "/home/user",
                                       .default_uid = 1000,
                                       .default_gid = 1000}};
    const struct atoll_agent_sudo_caller caller = {.uid = 1000, .gid = 1000};
    struct atoll_sudo_run run;
    struct plan p = {0};

    if (atoll_msg_decode(&atoll_sudo_run_desc, data, size, &run, NULL) < 0)
        return;
    pretend(&a.passwd, "/etc/passwd", "root:x:0:0::/root:/bin/sh\na:x:7:7::/a:/bin/a\n");
    pretend(&a.group, "/etc/group", "root:x:0:\na:x:7:user\n");
    if (plan_command(&p, &a, &caller, &run, NULL) == 0)
        check_command(&p, &run);
    plan_done(&p);
    atoll_msg_done(&atoll_sudo_run_desc, &run);
    atoll_agent_users_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[64 * 1024];
    size_t n;

    if (size < 1)
        return 0;
    n = ATOLL_MIN(size - 1, sizeof(text) - 1);
    memcpy(text, data + 1, n);
    text[n] = '\0';
    switch (data[0] & 3) {
    case 0:
        fuzz_users(text);
        break;
    case 1:
        fuzz_path(text);
        break;
    case 3:
        fuzz_sudo(data + 1, size - 1);
        break;
    default:
        fuzz_frames(data + 1, size - 1, (size_t)(data[0] >> 2) + 1);
    }
    return 0;
}
