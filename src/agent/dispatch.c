/*
 * Maps a frame to its handler, and the handler's result to an answer: one table row per request
 * type. Handlers get decoded messages only.
 */
#include <errno.h>
#include <string.h>
#include "agent/agent_internal.h"
#include "base/switches.h"

/* Large enough for every request message; the table is checked against it. */
union any_message {
    struct atoll_am_hello hello;
    struct atoll_am_exec_start exec_start;
    struct atoll_am_exec_ref exec_ref;
    struct atoll_am_stdin input;
    struct atoll_am_signal signal;
    struct atoll_am_resize resize;
    struct atoll_am_resume resume;
    struct atoll_am_ack ack;
    struct atoll_am_path path;
    struct atoll_am_list list;
    struct atoll_am_read read;
    struct atoll_am_create create;
    struct atoll_am_write write;
    struct atoll_am_handle handle;
    struct atoll_am_mkdir mkdir;
    struct atoll_am_two_paths two_paths;
    struct atoll_am_chmod chmod;
    struct atoll_am_chown chown;
    struct atoll_am_xattr xattr;
    struct atoll_am_watch watch;
    struct atoll_am_connect connect;
    struct atoll_am_data data;
    struct atoll_am_user user;
    struct atoll_am_pause pause;
};

static int on_hello(struct atoll_agent *a, uint32_t request, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_am_hello *hello = msg;
    struct atoll_am_hello reply = {.version = ATOLL_AGENT_VERSION,
                                   .pid = (uint32_t)a->pid,
                                   .started_unix_ms = a->started_unix_ms};

    if (hello->version < 1)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EPROTO, "protocol version %u is unknown",
                          hello->version);
    a->conn.fds = a->config.fds && (hello->features & ATOLL_AGENT_FEATURE_FDS);
    if (a->conn.fds)
        reply.features |= ATOLL_AGENT_FEATURE_FDS;
    if (atoll_agent_sudo_works(a))
        reply.features |= ATOLL_AGENT_FEATURE_SUDO;
    a->conn.greeted = true;
    atoll_agent_reply(a, request, &atoll_am_hello_desc, &reply);
    return ATOLL_AGENT_ANSWERED;
}

static int on_ping(struct atoll_agent *a, uint32_t request, const void *msg,
                   struct atoll_error *err)
{
    (void)a;
    (void)request;
    (void)msg;
    (void)err;
    return 0;
}

#define TYPE(name_) ATOLL_AGENT_##name_, #name_

static const struct row {
    uint16_t type;
    const char *name;
    bool silent;                       /* never answered, not even with an error */
    const struct atoll_msg_desc *desc; /* NULL: the payload is ignored */
    atoll_agent_handler *handler;
} rows[] = {
    {TYPE(HELLO), false, &atoll_am_hello_desc, on_hello},

    {TYPE(EXEC_START), false, &atoll_am_exec_start_desc, atoll_agent_on_exec_start},
    {TYPE(EXEC_STDIN), false, &atoll_am_stdin_desc, atoll_agent_on_exec_stdin},
    {TYPE(EXEC_STDIN_CLOSE), false, &atoll_am_exec_ref_desc, atoll_agent_on_exec_stdin_close},
    {TYPE(EXEC_SIGNAL), false, &atoll_am_signal_desc, atoll_agent_on_exec_signal},
    {TYPE(EXEC_RESIZE), false, &atoll_am_resize_desc, atoll_agent_on_exec_resize},
    {TYPE(EXEC_RESUME), false, &atoll_am_resume_desc, atoll_agent_on_exec_resume},
    {TYPE(EXEC_LIST), false, NULL, atoll_agent_on_exec_list},
    {TYPE(EXEC_ACK), true, &atoll_am_ack_desc, atoll_agent_on_exec_ack},
    {TYPE(EXEC_FORGET), true, &atoll_am_exec_ref_desc, atoll_agent_on_exec_forget},
    {TYPE(PROCESS_LIST), false, NULL, atoll_agent_on_process_list},

    {TYPE(FILE_STAT), false, &atoll_am_path_desc, atoll_agent_on_file_stat},
    {TYPE(FILE_LIST), false, &atoll_am_list_desc, atoll_agent_on_file_list},
    {TYPE(FILE_OPEN), false, &atoll_am_path_desc, atoll_agent_on_file_open},
    {TYPE(FILE_READ), false, &atoll_am_read_desc, atoll_agent_on_file_read},
    {TYPE(FILE_CREATE), false, &atoll_am_create_desc, atoll_agent_on_file_create},
    {TYPE(FILE_WRITE), false, &atoll_am_write_desc, atoll_agent_on_file_write},
    {TYPE(FILE_COMMIT), false, &atoll_am_handle_desc, atoll_agent_on_file_commit},
    {TYPE(FILE_CLOSE), false, &atoll_am_handle_desc, atoll_agent_on_file_close},
    {TYPE(FILE_MKDIR), false, &atoll_am_mkdir_desc, atoll_agent_on_file_mkdir},
    {TYPE(FILE_RENAME), false, &atoll_am_two_paths_desc, atoll_agent_on_file_rename},
    {TYPE(FILE_REMOVE), false, &atoll_am_path_desc, atoll_agent_on_file_remove},
    {TYPE(FILE_CHMOD), false, &atoll_am_chmod_desc, atoll_agent_on_file_chmod},
    {TYPE(FILE_CHOWN), false, &atoll_am_chown_desc, atoll_agent_on_file_chown},
    {TYPE(FILE_SYMLINK), false, &atoll_am_two_paths_desc, atoll_agent_on_file_symlink},
    {TYPE(XATTR_GET), false, &atoll_am_xattr_desc, atoll_agent_on_xattr_get},
    {TYPE(XATTR_SET), false, &atoll_am_xattr_desc, atoll_agent_on_xattr_set},
    {TYPE(XATTR_LIST), false, &atoll_am_xattr_desc, atoll_agent_on_xattr_list},
    {TYPE(XATTR_REMOVE), false, &atoll_am_xattr_desc, atoll_agent_on_xattr_remove},

    {TYPE(WATCH_START), false, &atoll_am_watch_desc, atoll_agent_on_watch_start},
    {TYPE(WATCH_STOP), false, &atoll_am_handle_desc, atoll_agent_on_watch_stop},
    {TYPE(CONNECT), false, &atoll_am_connect_desc, atoll_agent_on_connect},
    {TYPE(USAGE), false, NULL, atoll_agent_on_usage},
    {TYPE(NOTE_PUT), false, &atoll_am_data_desc, atoll_agent_on_note_put},
    {TYPE(NOTE_GET), false, NULL, atoll_agent_on_note_get},
    {TYPE(PAUSE), false, &atoll_am_pause_desc, atoll_agent_on_pause},
    {TYPE(RESUME), false, NULL, atoll_agent_on_resume},
    {TYPE(LEAVE), false, NULL, atoll_agent_on_leave},
    {TYPE(PING), false, NULL, on_ping},
    {TYPE(WORKDIR), false, &atoll_am_mkdir_desc, atoll_agent_on_workdir},
    {TYPE(USER), false, &atoll_am_user_desc, atoll_agent_on_user},
};

static const struct row *row_of(uint16_t type)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

static void answer(struct atoll_agent *a, const struct row *row, uint32_t request, int r,
                   const struct atoll_error *err)
{
    if (row->silent)
        return;
    if (r < 0)
        atoll_agent_error(a, request, err);
    else if (r != ATOLL_AGENT_ANSWERED)
        atoll_agent_reply(a, request, NULL, NULL);
}

int atoll_agent_dispatch(struct atoll_agent *a, struct atoll_frame *frame)
{
    const struct row *row = row_of(frame->type);
    struct atoll_error err = {0};
    union any_message msg = {0};
    int r;

    /* No request carries descriptors: received ones are closed. */
    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    if (!a->conn.greeted && frame->type != ATOLL_AGENT_HELLO)
        return -EPROTO;
    if (!row) {
        if (frame->id == 0)
            return -EPROTO;
        (void)atoll_fail(&err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                         "this agent does not know request type %u", frame->type);
        atoll_agent_error(a, frame->id, &err);
        return 0;
    }
    if (frame->id == 0 && !row->silent)
        return -EPROTO;
    if (row->desc) {
        if (row->desc->size > sizeof(msg))
            return -EPROTO;
        r = atoll_msg_decode(row->desc, frame->payload, frame->len, &msg, &err);
        if (r < 0)
            return r;
    }
    r = atoll_faultf("agent.%s", row->name);
    r = r != 0 ? atoll_fail_errno(&err, r, "fault") : row->handler(a, frame->id, &msg, &err);
    atoll_fault_die("agent.%s.after", row->name);
    answer(a, row, frame->id, r, &err);
    if (row->desc)
        atoll_msg_done(row->desc, &msg);
    return 0;
}
