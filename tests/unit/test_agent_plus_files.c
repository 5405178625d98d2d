/*
 * Files for facades that act with root's access on behalf of a user ("+NAME"), that write files where
 * they are, and that look at attributes and at what links lead to.
 */
#include "agent_client.h"

#include <sys/xattr.h>

static const char *in_dir(struct agent_client *c, const char *name)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", c->dir, name);
    return path;
}

static uint32_t create(struct agent_client *c, const struct atoll_am_create *msg)
{
    struct atoll_am_opened opened;

    client_call(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, msg, &atoll_am_opened_desc,
                &opened, NULL);
    return opened.handle;
}

static void write_text(struct agent_client *c, uint32_t handle, const char *text)
{
    struct atoll_am_write msg = {.handle = handle, .data = {(const uint8_t *)text, strlen(text)}};
    client_call(c, ATOLL_AGENT_FILE_WRITE, &atoll_am_write_desc, &msg, NULL, NULL, NULL);
}

static void commit(struct agent_client *c, uint32_t handle, const char *path)
{
    struct atoll_am_handle msg = {handle};
    struct atoll_am_entry e;
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_FILE_COMMIT, &atoll_am_handle_desc, &msg, &atoll_am_entry_desc, &e,
                &k);
    assert_string_equal(e.path, path);
    kept_done(&k);
}

static void check_text(const char *path, const char *text)
{
    char got[64] = "";

    assert_true(atoll_fd_read_file(AT_FDCWD, path, got, sizeof(got)) >= 0);
    assert_string_equal(got, text);
}

static void check_owner(const char *path, uid_t uid, mode_t mode)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_uid, uid);
    assert_int_equal(st.st_mode & 07777, mode);
}

static void root_may_what_the_user_owns_then(void **state)
{
    struct agent_client *c = *state;
    const char *locked = in_dir(c, "locked"), *file = in_dir(c, "locked/a/b/f");
    struct atoll_am_create msg = {.user = "+", .path = file, .parents = 1};
    struct atoll_am_mkdir dir = {.user = "+nobody", .path = in_dir(c, "locked/d/e"), .parents = 1};
    struct atoll_am_two_paths link = {.user = "+", .from = "to", .to = in_dir(c, "locked/link")};

    if (!is_root())
        skip();
    assert_int_equal(mkdir(locked, 0700), 0); /* root's */
    msg.user = "";
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");
    msg.user = "+";
    commit(c, create(c, &msg), file);
    check_owner(file, 65534, 0644);
    check_owner(in_dir(c, "locked/a"), 65534, 0755);
    check_owner(in_dir(c, "locked/a/b"), 65534, 0755);
    check_owner(locked, 0, 0700); /* what was there stays whose it is */
    client_call(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &dir, NULL, NULL, NULL);
    check_owner(in_dir(c, "locked/d"), 65534, 0755);
    check_owner(dir.path, 65534, 0755);
    client_call(c, ATOLL_AGENT_FILE_SYMLINK, &atoll_am_two_paths_desc, &link, NULL, NULL, NULL);
    check_owner(link.to, 65534, 0777);
    msg.user = "+nosuchuser";
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg,
                      ATOLL_ERR_INVALID_ARGUMENT, "unknown user nosuchuser");
    /* The next one is nobody special again. */
    msg.user = "";
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");
}

static void relative_paths_are_the_users(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_create msg = {.user = "+", .path = "rel.txt"};

    commit(c, create(c, &msg), in_dir(c, "rel.txt")); /* the home of the default user */
    check_owner(in_dir(c, "rel.txt"), is_root() ? 65534 : geteuid(), 0644);
}

static void commands_do_not_take_it(void **state)
{
    const char *argv[] = {"true"};
    struct agent_client *c = *state;
    struct atoll_am_exec_start msg = {.exec = 1, .user = "+root", .argv = {argv, 1}};

    if (!is_root())
        skip();
    client_call_fails(c, ATOLL_AGENT_EXEC_START, &atoll_am_exec_start_desc, &msg,
                      ATOLL_ERR_INVALID_ARGUMENT, "unknown user +root");
}

static void in_place_keeps_the_file(void **state)
{
    struct agent_client *c = *state;
    const char *path = in_dir(c, "f");
    struct atoll_am_create msg = {.user = "+", .path = path, .in_place = 1};
    struct stat before, after;
    uint32_t handle = create(c, &msg);

    write_text(c, handle, "a long text");
    check_text(path, "a long text"); /* before the commit */
    commit(c, handle, path);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(chmod(path, 0600), 0);
    handle = create(c, &msg);
    check_text(path, "");
    write_text(c, handle, "short");
    client_drop(c); /* what was written stays */
    (void)client_connect(c);
    check_text(path, "short");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(after.st_mode & 07777, 0600);
}

/* Given up, unlike the above: half a file is worse than none. */
static void in_place_and_closed(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_create msg = {.user = "+", .path = in_dir(c, "f"), .in_place = 1};
    struct atoll_am_handle close = {create(c, &msg)};

    write_text(c, close.handle, "half");
    client_call(c, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &close, NULL, NULL, NULL);
    assert_int_equal(access(msg.path, F_OK), -1);
    close.handle = create(c, &msg);
    commit(c, close.handle, msg.path);
    close.handle = create(c, &msg);
    write_text(c, close.handle, "half");
    client_call(c, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &close, NULL, NULL, NULL);
    check_text(msg.path, "");
    assert_int_equal(unlink(msg.path), 0);
    close.handle = create(c, &msg);
    assert_int_equal(rename(msg.path, in_dir(c, "moved")), 0);
    assert_int_equal(symlink("other", msg.path), 0);
    client_call(c, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &close, NULL, NULL, NULL);
    assert_int_equal(readlink(msg.path, (char[8]){0}, 8), 5);
}

/* What a daemon would do on behalf of a tenant must not reach the kernel. */
static void kernel_files_are_not_written_in_place(void **state)
{
    static const char *const paths[] = {"/proc/self/comm", "/proc/sys/kernel/hostname",
                                        "/proc/1/oom_score_adj", "/sys/kernel/profiling"};
    struct agent_client *c = *state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(paths); i++) {
        struct atoll_am_create msg = {.user = "+root", .path = paths[i], .in_place = 1};
        struct kept_frame k;
        if (!is_root())
            msg.user = "+";
        k = client_wait(c, client_send(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg), 0);
        assert_int_equal(k.type, ATOLL_AGENT_ERROR);
        kept_done(&k);
    }
}

static void next_event(struct agent_client *c, uint8_t kind, const char *name)
{
    struct kept_frame k = client_wait(c, 0, ATOLL_AGENT_WATCH_EVENT);
    struct atoll_am_watch_event ev;

    assert_int_equal(atoll_msg_decode(&atoll_am_watch_event_desc, k.payload, k.len, &ev, NULL), 0);
    assert_int_equal(ev.kind, kind);
    assert_string_equal(ev.name, name);
    kept_done(&k);
}

/* Clients of the E2B API count them. */
static void a_new_file_is_three_events(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_watch watch = {.user = "+", .path = c->dir};
    struct atoll_am_create msg = {.user = "+", .path = in_dir(c, "new"), .in_place = 1};
    struct atoll_am_handle reply;
    struct kept_frame k;
    uint32_t handle;

    if (!is_root())
        skip(); /* nobody's file is given away */
    client_call(c, ATOLL_AGENT_WATCH_START, &atoll_am_watch_desc, &watch, &atoll_am_handle_desc,
                &reply, NULL);
    handle = create(c, &msg);
    write_text(c, handle, "x");
    commit(c, handle, msg.path);
    next_event(c, ATOLL_WATCH_CREATE, "new");
    next_event(c, ATOLL_WATCH_CHMOD, "new");
    next_event(c, ATOLL_WATCH_WRITE, "new");
    while (client_receive(c, 100))
        ;
    assert_false(client_take(c, 0, ATOLL_AGENT_WATCH_EVENT, &k));
}

static struct kept_frame look(struct agent_client *c, const char *path, const char *attributes,
                              struct atoll_am_entry *e)
{
    struct atoll_am_path msg = {.user = "+", .path = path, .attributes = attributes};
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_FILE_STAT, &atoll_am_path_desc, &msg, &atoll_am_entry_desc, e, &k);
    return k;
}

static void looking_shows_attributes_and_targets(void **state)
{
    struct agent_client *c = *state;
    const char *path = in_dir(c, "f");
    struct atoll_am_entry e;
    struct kept_frame k;
    int fd = open(path, O_WRONLY | O_CREAT, 0640);

    (void)close(fd);
    if (setxattr(path, "user.x.a", "1", 1, 0) < 0) {
        assert_int_equal(errno, EOPNOTSUPP);
        skip();
    }
    assert_int_equal(setxattr(path, "user.x.nul", "\0z", 2, 0), 0);
    assert_int_equal(setxattr(path, "user.y", "2", 1, 0), 0);
    assert_int_equal(symlink("f", in_dir(c, "link")), 0);
    assert_int_equal(symlink("nothing", in_dir(c, "broken")), 0);

    k = look(c, path, "user.x.", &e);
    assert_int_equal(e.attributes.len, sizeof("user.x.a\0"
                                              "1"));
    assert_memory_equal(e.attributes.data,
                        "user.x.a\0"
                        "1",
                        e.attributes.len);
    assert_string_equal(e.resolved, "");
    kept_done(&k);
    k = look(c, path, "", &e);
    assert_int_equal(e.attributes.len, 0);
    kept_done(&k);
    k = look(c, path, "trusted.", &e); /* nothing but the user's */
    assert_int_equal(e.attributes.len, 0);
    kept_done(&k);

    k = look(c, in_dir(c, "link"), "user.", &e);
    assert_int_equal(e.type, ATOLL_ENTRY_SYMLINK);
    assert_string_equal(e.target, "f");
    assert_string_equal(e.resolved, path);
    assert_int_equal(e.resolved_type, ATOLL_ENTRY_FILE);
    assert_int_equal(e.resolved_mode, 0640);
    kept_done(&k);
    k = look(c, in_dir(c, "broken"), "user.", &e);
    assert_string_equal(e.resolved, "");
    assert_int_equal(e.resolved_type, 0);
    kept_done(&k);
}

static void lists_show_them_too(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_list msg = {.user = "+", .path = in_dir(c, "d"), .attributes = "user."};
    struct atoll_am_entry e;
    struct kept_frame k;
    uint32_t request;

    assert_int_equal(mkdir(msg.path, 0755), 0);
    assert_int_equal(symlink("/", in_dir(c, "d/root")), 0);
    request = client_send(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &msg);
    k = client_wait(c, request, 0);
    assert_int_equal(k.type, ATOLL_AGENT_PART);
    assert_int_equal(atoll_msg_decode(&atoll_am_entry_desc, k.payload, k.len, &e, NULL), 0);
    assert_string_equal(e.resolved, "/");
    assert_int_equal(e.resolved_type, ATOLL_ENTRY_DIRECTORY);
    kept_done(&k);
    k = client_wait(c, request, 0);
    assert_int_equal(k.type, ATOLL_AGENT_REPLY);
    kept_done(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(root_may_what_the_user_owns_then),
        TEST(relative_paths_are_the_users),
        TEST(commands_do_not_take_it),
        TEST(in_place_keeps_the_file),
        TEST(in_place_and_closed),
        TEST(kernel_files_are_not_written_in_place),
        TEST(a_new_file_is_three_events),
        TEST(looking_shows_attributes_and_targets),
        TEST(lists_show_them_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
