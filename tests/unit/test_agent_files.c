/*
 * File operations of the agent, mostly as the default user.
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

static struct kept_frame stat_path(struct agent_client *c, const char *path, bool follow,
                                   struct atoll_am_entry *entry)
{
    struct atoll_am_path msg = {.path = path, .follow = follow};
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_FILE_STAT, &atoll_am_path_desc, &msg, &atoll_am_entry_desc, entry,
                &k);
    return k;
}

static uint32_t create_file(struct agent_client *c, const struct atoll_am_create *msg, int *ret_fd)
{
    struct atoll_am_opened opened;
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, msg, &atoll_am_opened_desc,
                &opened, &k);
    assert_true(k.fd >= 0);
    if (ret_fd)
        *ret_fd = dup(k.fd);
    kept_done(&k);
    return opened.handle;
}

static void write_part(struct agent_client *c, uint32_t handle, uint64_t offset, const char *text)
{
    struct atoll_am_write msg = {
        .handle = handle, .offset = offset, .data = {(const uint8_t *)text, strlen(text)}};
    client_call(c, ATOLL_AGENT_FILE_WRITE, &atoll_am_write_desc, &msg, NULL, NULL, NULL);
}

static void commit(struct agent_client *c, uint32_t handle)
{
    struct atoll_am_handle msg = {handle};
    client_call(c, ATOLL_AGENT_FILE_COMMIT, &atoll_am_handle_desc, &msg, NULL, NULL, NULL);
}

static void put_file(struct agent_client *c, const char *path, const char *text)
{
    struct atoll_am_create msg = {.path = path};
    uint32_t handle = create_file(c, &msg, NULL);

    write_part(c, handle, 0, text);
    commit(c, handle);
}

static void check_file(const char *path, const char *text)
{
    char got[256] = "";

    assert_true(atoll_fd_read_file(AT_FDCWD, path, got, sizeof(got)) >= 0);
    assert_string_equal(got, text);
}

static void write_then_read(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_path open = {.path = "f.txt"}; /* relative to the home directory */
    struct atoll_am_read read = {.offset = 6, .length = 100};
    struct atoll_am_opened opened;
    struct atoll_am_data data;
    struct kept_frame k;
    char through[16] = "";

    put_file(c, "~/f.txt", "hello world");
    client_call(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &open, &atoll_am_opened_desc,
                &opened, &k);
    assert_int_equal(opened.size_bytes, 11);
    assert_int_equal(pread(k.fd, through, sizeof(through), 0), 11);
    assert_string_equal(through, "hello world");
    assert_int_equal(write(k.fd, "x", 1), -1);
    kept_done(&k);
    read.handle = opened.handle;
    client_call(c, ATOLL_AGENT_FILE_READ, &atoll_am_read_desc, &read, &atoll_am_data_desc, &data,
                &k);
    assert_int_equal(data.data.len, 5);
    assert_memory_equal(data.data.data, "world", 5);
    kept_done(&k);
    read.offset = 50;
    client_call(c, ATOLL_AGENT_FILE_READ, &atoll_am_read_desc, &read, &atoll_am_data_desc, &data,
                &k);
    assert_int_equal(data.data.len, 0);
    kept_done(&k);
    read.length = ATOLL_AGENT_DATA_MAX + 1;
    client_call_fails(c, ATOLL_AGENT_FILE_READ, &atoll_am_read_desc, &read,
                      ATOLL_ERR_INVALID_ARGUMENT, "at most");
    struct atoll_am_handle close_it = {opened.handle};
    client_call(c, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &close_it, NULL, NULL, NULL);
    client_call_fails(c, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &close_it,
                      ATOLL_ERR_NOT_FOUND, "no open file");
}

static void replacing_is_atomic_and_keeps_the_mode(void **state)
{
    struct agent_client *c = *state;
    const char *path = in_dir(c, "script");
    struct atoll_am_create msg = {.path = path};
    struct atoll_am_entry e;
    struct kept_frame k;
    uint32_t handle;
    int fd;

    client_expect(c, "echo old > script; chmod 750 script", "");
    handle = create_file(c, &msg, &fd);
    assert_int_equal(pwrite(fd, "new\n", 4, 0), 4); /* through the descriptor */
    (void)close(fd);
    check_file(path, "old\n");
    commit(c, handle);
    check_file(path, "new\n");
    k = stat_path(c, path, true, &e);
    assert_int_equal(e.mode, 0750);
    assert_string_equal(e.owner, is_root() ? "nobody" : "me");
    assert_string_equal(e.path, path);
    kept_done(&k);
    client_expect(c, "ls -A | grep -v '^.agent$'", "script\n");

    msg.mode = 0600;
    handle = create_file(c, &msg, NULL);
    commit(c, handle);
    k = stat_path(c, path, true, &e);
    assert_int_equal(e.mode, 0600);
    assert_int_equal(e.size_bytes, 0);
    kept_done(&k);
}

static void a_link_at_the_end_stays_a_link(void **state)
{
    struct agent_client *c = *state;

    client_expect(c,
                  "mkdir d; echo one > d/real; ln -s d/real link; ln -s link link2; "
                  "ln -s nowhere/x dangling; ln -s loop loop",
                  "");
    put_file(c, "link2", "two");
    client_expect(c, "readlink link2; readlink link; cat d/real", "link\nd/real\ntwo");
    struct atoll_am_create loop = {.path = "loop"};
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &loop,
                      ATOLL_ERR_INVALID_ARGUMENT, "symbolic links");
    struct atoll_am_create dangling = {.path = "dangling", .parents = 1};
    commit(c, create_file(c, &dangling, NULL));
    client_expect(c, "ls nowhere", "x\n");
}

static void exclusive_never_replaces(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_create msg = {.path = "once", .exclusive = 1};
    uint32_t first = create_file(c, &msg, NULL);
    uint32_t second = create_file(c, &msg, NULL);
    struct atoll_am_handle late = {second};

    write_part(c, first, 0, "first");
    commit(c, first);
    client_call_fails(c, ATOLL_AGENT_FILE_COMMIT, &atoll_am_handle_desc, &late,
                      ATOLL_ERR_ALREADY_EXISTS, "already exists");
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg,
                      ATOLL_ERR_ALREADY_EXISTS, "already exists");
    client_expect(c, "cat once; ls -A | grep -c tmp || true", "first0\n");
}

static void unfinished_files_go_with_the_connection(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_create msg = {.path = "a/b/c/file", .parents = 1};
    struct atoll_am_handle closing;

    write_part(c, create_file(c, &msg, NULL), 0, "x");
    closing.handle = create_file(c, &msg, NULL);
    client_call(c, ATOLL_AGENT_FILE_CLOSE, &atoll_am_handle_desc, &closing, NULL, NULL, NULL);
    client_connect(c);
    client_expect(c, "find a | sort", "a\na/b\na/b/c\n");
}

static void handles_are_bounded(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_create msg = {.path = "many"};

    for (int i = 0; i < 64; i++)
        (void)create_file(c, &msg, NULL);
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &msg,
                      ATOLL_ERR_RESOURCE_EXHAUSTED, "64 files are open");
}

/* Each row: a path that cannot be opened, and what the answer says. */
static void odd_files_are_refused(void **state)
{
    struct agent_client *c = *state;
    const struct {
        const char *path;
        enum atoll_error_kind kind;
        const char *text;
    } rows[] = {
        {"missing", ATOLL_ERR_NOT_FOUND, "/missing does not exist"},
        {"dir", ATOLL_ERR_INVALID_ARGUMENT, "/dir is a directory"},
        {"fifo", ATOLL_ERR_INVALID_ARGUMENT, "is a FIFO"},
        {".agent", ATOLL_ERR_INVALID_ARGUMENT, "is a socket"},
        {"/dev/null", ATOLL_ERR_INVALID_ARGUMENT, "is a device"},
        {"file/below", ATOLL_ERR_INVALID_ARGUMENT, "not a directory"},
        {"", ATOLL_ERR_INVALID_ARGUMENT, "no path"},
        {"/proc/self/mem", ATOLL_ERR_PERMISSION_DENIED, "permission denied"},
        {"/proc/self/environ", ATOLL_ERR_PERMISSION_DENIED, "permission denied"},
        {"/proc/thread-self/status", ATOLL_ERR_PERMISSION_DENIED, "permission denied"},
        {"/proc/self/root/etc/passwd", ATOLL_ERR_INVALID_ARGUMENT, "may not be followed"},
        {"/proc/self/fd/0", ATOLL_ERR_INVALID_ARGUMENT, "may not be followed"},
    };

    client_expect(c, "mkdir dir; mkfifo fifo; echo x > file", "");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_am_path msg = {.path = rows[i].path};
        client_call_fails(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &msg, rows[i].kind,
                          rows[i].text);
    }
    struct atoll_am_create over_fifo = {.path = "fifo"};
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &over_fifo,
                      ATOLL_ERR_INVALID_ARGUMENT, "is a FIFO");
    char deep[5000];
    memset(deep, 'x', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    struct atoll_am_path too_long = {.path = deep};
    client_call_fails(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &too_long,
                      ATOLL_ERR_INVALID_ARGUMENT, "longer than");
}

static void the_user_decides_what_is_allowed(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_path secret = {.path = in_dir(c, "secret")};
    struct atoll_am_create create = {.path = in_dir(c, "rootdir/x"), .user = "root"};
    struct atoll_am_opened opened;
    struct atoll_am_entry e;
    struct kept_frame k;

    if (!is_root())
        skip();
    int fd = open(secret.path, O_WRONLY | O_CREAT, 0600); /* root's */
    assert_int_equal(write(fd, "s", 1), 1);
    (void)close(fd);
    client_call_fails(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &secret,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");
    secret.user = "root";
    client_call(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &secret, &atoll_am_opened_desc,
                &opened, NULL);
    /* Right after an operation of root the default user is the default user again. */
    secret.user = "";
    client_call_fails(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &secret,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");

    assert_int_equal(mkdir(in_dir(c, "rootdir"), 0755), 0);
    commit(c, create_file(c, &create, NULL));
    k = stat_path(c, create.path, true, &e);
    assert_string_equal(e.owner, "root");
    kept_done(&k);
    create.user = "";
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &create,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");
    create.user = "nosuchuser";
    client_call_fails(c, ATOLL_AGENT_FILE_CREATE, &atoll_am_create_desc, &create,
                      ATOLL_ERR_INVALID_ARGUMENT, "unknown user");
}

static void stat_tells_about_links_and_targets(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_entry e;
    struct kept_frame k;

    client_expect(c, "printf 12345 > f; ln -s f l; mkdir d; chmod 700 d", "");
    k = stat_path(c, "l", false, &e);
    assert_int_equal(e.type, ATOLL_ENTRY_SYMLINK);
    assert_string_equal(e.target, "f");
    kept_done(&k);
    k = stat_path(c, "./l/", true, &e);
    assert_int_equal(e.type, ATOLL_ENTRY_FILE);
    assert_int_equal(e.size_bytes, 5);
    assert_true(e.mtime_ms > atoll_clock_unix_ms() - 60000);
    assert_string_equal(e.path, in_dir(c, "l"));
    kept_done(&k);
    k = stat_path(c, "d", false, &e);
    assert_int_equal(e.type, ATOLL_ENTRY_DIRECTORY);
    assert_int_equal(e.mode, 0700);
    kept_done(&k);
    k = stat_path(c, "/dev/null", false, &e);
    assert_int_equal(e.type, ATOLL_ENTRY_OTHER);
    kept_done(&k);
    k = stat_path(c, "/", false, &e);
    assert_string_equal(e.path, "/");
    kept_done(&k);
}

static void directories_are_made_for_the_user(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_mkdir msg = {.path = "new", .mode = 0711};
    struct atoll_am_entry e;
    struct kept_frame k;

    client_call(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg, &atoll_am_entry_desc, &e,
                &k);
    assert_int_equal(e.mode, 0711);
    assert_string_equal(e.owner, is_root() ? "nobody" : "me");
    kept_done(&k);
    client_call_fails(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg,
                      ATOLL_ERR_ALREADY_EXISTS, "already exists");
    msg.path = "p/q/r";
    client_call_fails(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg, ATOLL_ERR_NOT_FOUND,
                      "/p/q does not exist");
    msg.parents = 1;
    for (int i = 0; i < 2; i++)
        client_call(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg, NULL, NULL, NULL);
    client_expect(c, "stat -c %a p p/q p/q/r", "755\n755\n711\n");
    client_expect(c, "touch file", "");
    msg.path = "file/x";
    client_call_fails(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg,
                      ATOLL_ERR_INVALID_ARGUMENT, "not a directory");
    msg.path = "file";
    client_call_fails(c, ATOLL_AGENT_FILE_MKDIR, &atoll_am_mkdir_desc, &msg,
                      ATOLL_ERR_INVALID_ARGUMENT, "not a directory");
}

static void rename_chmod_chown_symlink(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_two_paths move = {.from = "a", .to = "sub/b"};
    struct atoll_am_chmod chmod_it = {.path = "sub/b", .mode = 0640};
    struct atoll_am_chown chown_it = {.path = in_dir(c, "sub/b"), .owner = "root"};
    struct atoll_am_two_paths link = {.from = "../target with space", .to = "sub/link"};
    struct atoll_am_entry e;
    struct kept_frame k;

    client_expect(c, "echo content > a; mkdir sub sub/full; touch sub/full/x", "");
    client_call(c, ATOLL_AGENT_FILE_RENAME, &atoll_am_two_paths_desc, &move, &atoll_am_entry_desc,
                &e, &k);
    assert_string_equal(e.path, in_dir(c, "sub/b"));
    kept_done(&k);
    client_call_fails(c, ATOLL_AGENT_FILE_RENAME, &atoll_am_two_paths_desc, &move,
                      ATOLL_ERR_NOT_FOUND, "/a does not exist");
    struct atoll_am_two_paths onto = {.from = "sub", .to = "sub/full/y"};
    client_call_fails(c, ATOLL_AGENT_FILE_RENAME, &atoll_am_two_paths_desc, &onto,
                      ATOLL_ERR_INVALID_ARGUMENT, "");
    client_call(c, ATOLL_AGENT_FILE_CHMOD, &atoll_am_chmod_desc, &chmod_it, NULL, NULL, NULL);
    client_call(c, ATOLL_AGENT_FILE_SYMLINK, &atoll_am_two_paths_desc, &link, NULL, NULL, NULL);
    client_expect(c, "stat -c %a sub/b; readlink sub/link", "640\n../target with space\n");
    client_call_fails(c, ATOLL_AGENT_FILE_SYMLINK, &atoll_am_two_paths_desc, &link,
                      ATOLL_ERR_ALREADY_EXISTS, "already exists");
    if (!is_root())
        return;
    client_call_fails(c, ATOLL_AGENT_FILE_CHOWN, &atoll_am_chown_desc, &chown_it,
                      ATOLL_ERR_PERMISSION_DENIED, "not permitted");
    chown_it.user = "root";
    chown_it.group = "daemon";
    client_call(c, ATOLL_AGENT_FILE_CHOWN, &atoll_am_chown_desc, &chown_it, NULL, NULL, NULL);
    client_expect(c, "stat -c '%U %G' sub/b", "root daemon\n");
    chown_it.owner = "";
    chown_it.group = "nosuchgroup";
    client_call_fails(c, ATOLL_AGENT_FILE_CHOWN, &atoll_am_chown_desc, &chown_it,
                      ATOLL_ERR_INVALID_ARGUMENT, "unknown group");
}

/* Lists and joins the paths below `under`; returns the number of entries. */
static size_t list(struct agent_client *c, const struct atoll_am_list *msg, char *out, size_t cap)
{
    uint32_t id = client_send(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, msg);
    size_t count = 0, len = 0;

    if (out)
        out[0] = '\0';
    for (;;) {
        struct kept_frame k = client_wait(c, id, 0);
        struct atoll_am_entry e;
        bool last = k.type == ATOLL_AGENT_REPLY;
        if (!last) {
            assert_int_equal(k.type, ATOLL_AGENT_PART);
            assert_int_equal(atoll_msg_decode(&atoll_am_entry_desc, k.payload, k.len, &e, NULL), 0);
            count++;
            if (out)
                len +=
                    (size_t)snprintf(out + len, cap - len, "%s ", e.path + strlen(msg->path) + 1);
        }
        kept_done(&k);
        if (last)
            return count;
    }
}

static void lists_are_sorted_and_depth_first(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_list msg = {.path = in_dir(c, "tree"), .depth = 1};
    struct kept_frame k;
    char got[256];

    client_expect(c,
                  "mkdir -p tree/b/deep/er tree/a tree/c; touch tree/z tree/b/2 tree/b/1 tree/a/x "
                  "tree/b/deep/er/file; ln -s . tree/c/loop",
                  "");
    assert_int_equal(list(c, &msg, got, sizeof(got)), 4);
    assert_string_equal(got, "a b c z ");
    msg.depth = 2;
    (void)list(c, &msg, got, sizeof(got));
    assert_string_equal(got, "a a/x b b/1 b/2 b/deep c c/loop z ");
    msg.depth = 100;
    (void)list(c, &msg, got, sizeof(got));
    assert_string_equal(got, "a a/x b b/1 b/2 b/deep b/deep/er b/deep/er/file c c/loop z ");
    msg.max_entries = 3;
    k = client_wait(c, client_send(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &msg),
                    ATOLL_AGENT_ERROR);
    kept_done(&k);
    struct atoll_am_list file = {.path = in_dir(c, "tree/z")};
    client_call_fails(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &file,
                      ATOLL_ERR_INVALID_ARGUMENT, "not a directory");
}

static void the_agents_own_proc_is_not_shown(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_list all = {.path = "/proc", .depth = 2};
    struct kept_frame k;
    char own[64];

    (void)snprintf(own, sizeof(own), "/proc/%d/", c->pid);
    k = client_wait(c, client_send(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &all),
                    ATOLL_AGENT_REPLY);
    kept_done(&k);
    assert_true(c->frame_count > 50);
    for (size_t i = 0; i < c->frame_count; i++) {
        struct atoll_am_entry e;
        assert_int_equal(atoll_msg_decode(&atoll_am_entry_desc, c->frames[i].payload,
                                          c->frames[i].len, &e, NULL),
                         0);
        assert_int_not_equal(strncmp(e.path, own, strlen(own)), 0);
    }
    all.path = own;
    client_call_fails(c, ATOLL_AGENT_FILE_LIST, &atoll_am_list_desc, &all,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");
}

static void a_huge_directory_is_listed_whole(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_list msg = {.path = in_dir(c, "huge"), .depth = 1};

    client_expect(c,
                  "mkdir huge; cd huge; seq -f 'a-file-with-a-rather-long-name-%g' 20000 | "
                  "xargs touch",
                  "");
    assert_int_equal(list(c, &msg, NULL, 0), 20000);
    client_expect(c, "echo alive", "alive\n");
}

static void remove_path(struct agent_client *c, const char *path, bool recursive)
{
    struct atoll_am_path msg = {.path = path, .recursive = recursive};
    client_call(c, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &msg, NULL, NULL, NULL);
}

static void removing(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_path full = {.path = "full"};
    struct atoll_am_path root = {.path = "/", .recursive = 1};
    struct atoll_am_path missing = {.path = "missing", .recursive = 1};

    client_expect(c,
                  "mkdir -p full/a/b full/c empty outside; touch f full/x full/a/y outside/keep; "
                  "ln -s ../outside full/link; ln -s outside link",
                  "");
    client_call_fails(c, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &full,
                      ATOLL_ERR_FAILED_PRECONDITION, "not empty");
    client_call_fails(c, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &root,
                      ATOLL_ERR_INVALID_ARGUMENT, "/ does not name");
    client_call_fails(c, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &missing,
                      ATOLL_ERR_NOT_FOUND, "does not exist");
    remove_path(c, "f", false);
    remove_path(c, "empty", false);
    remove_path(c, "link", true);
    remove_path(c, "full", true);
    client_expect(c, "find . -name .agent -o -print | sort", ".\n./outside\n./outside/keep\n");
}

static void very_deep_and_wide_trees_are_removed(void **state)
{
    struct agent_client *c = *state;

    client_expect(c,
                  "mkdir deep && cd deep && perl -e 'for (1..10000) { mkdir \"dddddddddd\" or die; "
                  "chdir \"dddddddddd\" or die } open F, \">f\"'",
                  "");
    remove_path(c, "deep", true);
    client_expect(
        c,
        "mkdir wide; cd wide; seq 3000 | xargs mkdir; for i in 1 2 3; do seq -f \"%g/f$i\" "
        "3000 | xargs touch; done",
        "");
    remove_path(c, "wide", true);
    client_expect(c, "ls", "");
}

static void the_tree_that_is_not_ours_stays(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_path msg = {.path = "theirs", .recursive = 1};

    if (!is_root())
        skip();
    assert_int_equal(mkdir(in_dir(c, "theirs"), 0755), 0);
    assert_int_equal(mkdir(in_dir(c, "theirs/sub"), 0755), 0);
    client_call_fails(c, ATOLL_AGENT_FILE_REMOVE, &atoll_am_path_desc, &msg,
                      ATOLL_ERR_PERMISSION_DENIED, "permission denied");
    client_expect(c, "ls theirs", "sub\n");
}

static void extended_attributes(void **state)
{
    struct agent_client *c = *state;
    struct atoll_am_xattr msg = {
        .path = "f", .name = "user.note", .value = {(const uint8_t *)"a\0b", 3}};
    struct atoll_am_xattr part;
    struct atoll_am_data data;
    struct kept_frame k;
    uint32_t id;

    put_file(c, "f", "x");
    if (setxattr(in_dir(c, "f"), "user.probe", "1", 1, 0) < 0)
        skip(); /* the file system of /tmp has none */
    assert_int_equal(removexattr(in_dir(c, "f"), "user.probe"), 0);
    client_call(c, ATOLL_AGENT_XATTR_SET, &atoll_am_xattr_desc, &msg, NULL, NULL, NULL);
    client_call(c, ATOLL_AGENT_XATTR_GET, &atoll_am_xattr_desc, &msg, &atoll_am_data_desc, &data,
                &k);
    assert_int_equal(data.data.len, 3);
    assert_memory_equal(data.data.data, "a\0b", 3);
    kept_done(&k);
    id = client_send(c, ATOLL_AGENT_XATTR_LIST, &atoll_am_xattr_desc, &msg);
    k = client_wait(c, id, ATOLL_AGENT_PART);
    assert_int_equal(atoll_msg_decode(&atoll_am_xattr_desc, k.payload, k.len, &part, NULL), 0);
    assert_string_equal(part.name, "user.note");
    assert_int_equal(part.value.len, 3);
    kept_done(&k);
    k = client_wait(c, id, ATOLL_AGENT_REPLY);
    kept_done(&k);
    client_call(c, ATOLL_AGENT_XATTR_REMOVE, &atoll_am_xattr_desc, &msg, NULL, NULL, NULL);
    client_call_fails(c, ATOLL_AGENT_XATTR_GET, &atoll_am_xattr_desc, &msg, ATOLL_ERR_NOT_FOUND,
                      "no attribute user.note");
    msg.name = "security.capability";
    client_call_fails(c, ATOLL_AGENT_XATTR_SET, &atoll_am_xattr_desc, &msg,
                      ATOLL_ERR_INVALID_ARGUMENT, "begin with");
}

/* One whose value would have no room at all is left out, whatever lay in memory before. */
static void attributes_that_just_do_not_fit(void **state)
{
    struct agent_client *c = *state;
    enum { ALL = 16 * 1024, NAME = sizeof("user.a") };
    static char value[ALL], text[ATOLL_AGENT_DATA_MAX + 1];
    char path[64], names[64] = "";
    struct atoll_am_path msg = {.path = path, .attributes = "user."};
    struct atoll_am_opened opened;
    struct atoll_am_entry entry;
    struct kept_frame k;
    int fd;

    (void)snprintf(path, sizeof(path), "/dev/shm/atoll-attributes-%d", (int)getpid());
    memset(value, 'v', sizeof(value));
    memset(text, 't', sizeof(text) - 1);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        skip();
    if (fsetxattr(fd, "user.a", value, 100, 0) < 0 || fsetxattr(fd, "user.b", value, 100, 0) < 0 ||
        flistxattr(fd, names, sizeof(names)) < 0 ||
        fsetxattr(fd, names, value, ALL - NAME - 1 - NAME - 1, 0) < 0) {
        (void)close(fd);
        (void)unlink(path);
        skip();
    }
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    (void)close(fd);
    client_call(c, ATOLL_AGENT_FILE_OPEN, &atoll_am_path_desc, &msg, &atoll_am_opened_desc, &opened,
                &k);
    kept_done(&k);
    struct atoll_am_read read_msg = {.handle = opened.handle, .length = ATOLL_AGENT_DATA_MAX};
    client_call(c, ATOLL_AGENT_FILE_READ, &atoll_am_read_desc, &read_msg, NULL, NULL, &k);
    kept_done(&k);
    client_call(c, ATOLL_AGENT_FILE_STAT, &atoll_am_path_desc, &msg, &atoll_am_entry_desc, &entry,
                &k);
    (void)unlink(path);
    assert_int_equal(entry.attributes.len, ALL - NAME - 1);
    assert_string_equal((const char *)entry.attributes.data, names);
    kept_done(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, client_setup, client_teardown)
        TEST(write_then_read),
        TEST(replacing_is_atomic_and_keeps_the_mode),
        TEST(a_link_at_the_end_stays_a_link),
        TEST(exclusive_never_replaces),
        TEST(unfinished_files_go_with_the_connection),
        TEST(handles_are_bounded),
        TEST(odd_files_are_refused),
        TEST(the_user_decides_what_is_allowed),
        TEST(stat_tells_about_links_and_targets),
        TEST(directories_are_made_for_the_user),
        TEST(rename_chmod_chown_symlink),
        TEST(lists_are_sorted_and_depth_first),
        TEST(the_agents_own_proc_is_not_shown),
        TEST(a_huge_directory_is_listed_whole),
        TEST(removing),
        TEST(very_deep_and_wide_trees_are_removed),
        TEST(the_tree_that_is_not_ours_stays),
        TEST(extended_attributes),
        TEST(attributes_that_just_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
