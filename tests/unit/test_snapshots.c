/*
 * Layers from sandboxes that go on, with a real atoll-spawn and the agents of its sandboxes; on every
 * kind of disk.
 */
#include <sched.h>
#include <sys/prctl.h>
#include "live_boxes.h"
#include "provider/disk_image.h"
#include "spawn/upper.h"

#define SNAP "snap"

static uint32_t send_snapshot(struct fixture *f, const struct atoll_spec *spec, const char *layer)
{
    struct atoll_sm_snapshot msg = {.id = spec->id,
                                    .layer = layer,
                                    .outside = spec->outside_id,
                                    .layer_base = ATOLL_LAYER_BASE,
                                    .userxattr = spec->template_kind == ATOLL_TEMPLATE_ROOTFS};

    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_SNAPSHOT, ++f->next_id,
                                        &atoll_sm_snapshot_desc, &msg, NULL, 0),
                     0);
    assert_true(atoll_channel_flush(&f->channel) >= 0);
    return f->next_id;
}

static struct answer take(struct fixture *f, const struct atoll_spec *spec, const char *layer)
{
    struct atoll_sm_snapshot msg = {.id = spec->id,
                                    .layer = layer,
                                    .outside = spec->outside_id,
                                    .layer_base = ATOLL_LAYER_BASE,
                                    .userxattr = spec->template_kind == ATOLL_TEMPLATE_ROOTFS};

    return ask(f, ATOLL_SPAWN_SNAPSHOT, &atoll_sm_snapshot_desc, &msg);
}

static struct answer must_take(struct fixture *f, const struct atoll_spec *spec)
{
    struct answer a;

    if (has(f, SNAP, "")) /* of a test that failed */
        drop_layer(f, SNAP);
    a = take(f, spec, SNAP);
    if (!a.ok)
        fail_msg("snapshot: %s", a.error.text);
    return a;
}

/* Nothing of an unfinished snapshot is left. */
static bool is_clean(const struct fixture *f)
{
    char command[256];

    (void)snprintf(command, sizeof(command),
                   "! ls %s/sandboxes %s/layers | grep -q -e '\\.snap$' -e '^gone-'", f->state,
                   f->state);
    return system(command) == 0;
}

static void expect_clean(const struct fixture *f)
{
    for (int i = 0; i < 500 && !is_clean(f); i++)
        (void)usleep(10000);
    assert_true(is_clean(f));
}

/* What a tree shows from inside: all that a snapshot has to keep. */
#define DIGEST(paths)                                                                               \
    "python3 - " paths " <<'END'\n"                                                                 \
    "import os, sys, stat, hashlib\n"                                                               \
    "first = {}\n"                                                                                  \
    "for top in sys.argv[1:]:\n"                                                                    \
    "    for where, dirs, files in os.walk(top):\n"                                                 \
    "        dirs.sort()\n"                                                                         \
    "        for name in sorted(dirs + files):\n"                                                   \
    "            path = os.path.join(where, name); st = os.lstat(path); body = ''\n"                \
    "            if stat.S_ISSOCK(st.st_mode): continue\n"                                          \
    "            if stat.S_ISREG(st.st_mode):\n"                                                    \
    "                body = hashlib.md5(open(path, 'rb').read()).hexdigest()\n"                     \
    "            if stat.S_ISLNK(st.st_mode): body = os.readlink(path)\n"                           \
    "            marks = [] if stat.S_ISLNK(st.st_mode) else [\n"                                   \
    "                (n, os.getxattr(path, n)) for n in sorted(os.listxattr(path))]\n"              \
    "            same = first.setdefault(st.st_ino, path) if st.st_nlink > 1 and body else ''\n"    \
    "            print(path, oct(st.st_mode), st.st_uid, st.st_gid, st.st_mtime_ns, body, marks,\n" \
    "                  same, '' if stat.S_ISDIR(st.st_mode) else st.st_size)\n"                     \
    "END\n"

static char *output_of(const struct fixture *f, struct box *b, const char *script)
{
    struct atoll_am_exec_start msg = client_command(7, CLIENT_ARGV("/bin/sh", "-c", script));
    struct run_result r;
    char *out;

    msg.user = f->rootless ? "" : "root";
    msg.cwd = "/";
    client_run(&b->c, &msg, &r);
    if (*atoll_buf_str(&r.err))
        fail_msg("%s", atoll_buf_str(&r.err));
    out = strdup(atoll_buf_str(&r.out));
    run_result_done(&r);
    return out;
}

/* Changes of every kind. */
#define CHANGES                                                                                    \
    "set -e; umask 022; mkdir /srv/x /srv/x/deep; cd /srv/x; echo one > one; ln one two; "         \
    "ln -s /etc/passwd link; ln -s nowhere broken; mkfifo pipe; chown 1000:1000 one; "             \
    "truncate -s 8M holes; echo end >> holes; cp /usr/bin/true suid; chmod 4755 suid; "            \
    "chmod 700 deep; touch -d 2001-02-03T04:05:06 deep/old; chown 1000 deep; "                     \
    "setfacl -m u:1234:rw one 2>/dev/null || true; "                                               \
    "python3 -c 'import os, socket; os.setxattr(\"one\", \"user.note\", b\"kept\"); "              \
    "os.setxattr(\"deep\", \"user.note\", b\"too\"); "                                             \
    "socket.socket(socket.AF_UNIX).bind(\"sock\")'; "                                              \
    "touch -d 2003-01-01 .; "                                                                      \
    "rm /usr/bin/env; echo new > /usr/local/new; rm -r /usr/local/share; mkdir /usr/local/share; " \
    "touch /usr/local/share/only; echo 10.0.0.1 peer >> /etc/hosts; touch /usr/bin/sudo; "         \
    "echo more >> /etc/passwd; echo own > /etc/new"

#define SEEN DIGEST("/srv /usr/local/share") "ls /usr/local; tail -n 1 /etc/passwd /etc/new"

static void expect_hole(const struct fixture *f)
{
    struct stat st;

    assert_int_equal(stat(path_of(f, SNAP, "srv/x/holes"), &st), 0);
    assert_int_equal(st.st_size, (8 << 20) + 4);
    assert_true(st.st_blocks * 512 < 1 << 20);
}

static void expect_names_left_out(const struct fixture *f)
{
    static const char *const absent[] = {"etc/hosts",
                                         "etc/hostname",
                                         "etc/resolv.conf",
                                         "usr/bin/sudo",
                                         "usr/share/atoll",
                                         "usr/lib/atoll",
                                         "srv/x/sock",
                                         "u",
                                         "w",
                                         "usr/local/none",
                                         "proc/self",
                                         "dev/null"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(absent); i++)
        if (has(f, SNAP, absent[i]))
            fail_msg("the snapshot has %s", absent[i]);
    assert_true(has(f, SNAP, "etc/new")); /* the control */
}

static void expect_same_lines(const char *was, const char *now)
{
    size_t n = 0, line = 0;

    for (; was[n] && was[n] == now[n]; n++)
        line = was[n] == '\n' ? n + 1 : line;
    if (was[n] != now[n])
        fail_msg("%.200s\n... instead of ...\n%.200s", now + line, was + line);
}

/* The sandbox goes on, and one from the snapshot has the same files. */
static void expect_same_in_another(struct fixture *f, struct box *b, const char *layers)
{
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, layers);
    ATOLL_AUTOFREE char *was = output_of(f, b, SEEN);
    ATOLL_AUTOFREE char *now = NULL;
    struct box other;

    spec.outside_id += f->rootless ? 0 : ATOLL_ID_RANGE;
    open_box(f, &other, &spec);
    now = output_of(f, &other, SEEN);
    assert_non_null(strstr(was, "/srv/x/two"));
    assert_non_null(strstr(was, "kept"));
    expect_same_lines(was, now);
    expect(f, &other, "ls /usr/bin/env 2>/dev/null; grep -c peer /etc/hosts; ls /usr/local/share",
           "0\nonly\n");
    close_box(f, &other);
}

static void a_snapshot_on_the_host_template(struct fixture *f, struct atoll_spec spec)
{
    struct answer a;
    struct box b;

    open_box(f, &b, &spec);
    expect(f, &b, CHANGES, "");
    a = must_take(f, &spec);
    assert_true(a.layer.files > 15 && a.layer.bytes > 10000);
    assert_true(a.layer.bytes < 4 << 20); /* without the hole */
    expect_names_left_out(f);
    expect_hole(f);
    expect_clean(f);
    expect_same_in_another(f, &b, "host " SNAP);
    close_box(f, &b);
    drop_layer(f, SNAP);
}

static void of_a_disk_in_memory(void **state)
{
    struct fixture *f = need(state);
    a_snapshot_on_the_host_template(f, spec_of(f, ATOLL_BUILDER_NONE, NULL));
}

static void of_a_stack(void **state)
{
    struct fixture *f = need(state);
    a_snapshot_on_the_host_template(f, spec_of(f, ATOLL_BUILDER_NONE, "host"));
}

/* A disk that is too large for memory is an image. */
static struct atoll_spec on_an_image(struct fixture *f, bool persistent)
{
    const struct atoll_plan_host host = {.root = true};
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct atoll_error err;
    char name[64], path[128];

    spec.limits.disk_bytes = UINT64_C(200) << 20;
    spec.persistent = persistent;
    assert_true(atoll_plan_needs_image(&host, &spec, name, sizeof(name)));
    (void)snprintf(path, sizeof(path), "%s/images", f->state);
    (void)mkdir(path, 0700);
    assert_int_equal(atoll_disk_image_make_now(f->state, name, spec.limits.disk_bytes,
                                               spec.limits.inodes, persistent, &err),
                     0);
    return spec;
}

static struct atoll_spec in_the_pool(struct fixture *f, bool persistent)
{
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);

    if (!f->info.pool) {
        print_message("this host has no disk pool\n");
        skip();
    }
    spec.limits.disk_bytes = UINT64_C(200) << 20;
    spec.persistent = persistent;
    spec.cow_disk = true;
    return spec;
}

static void of_a_disk_in_the_pool(void **state)
{
    struct fixture *f = need(state);
    a_snapshot_on_the_host_template(f, in_the_pool(f, false));
}

static void of_an_image(void **state)
{
    struct fixture *f = need(state);
    a_snapshot_on_the_host_template(f, on_an_image(f, false));
}

/* Also while it is stopped: the disk is mounted for the copying only. */
static void of_a_kept_disk(struct fixture *f, struct atoll_spec spec)
{
    struct atoll_sm_remove stop = {.id = spec.id, .keep_disk = 1};
    struct answer a;
    struct box b;

    open_box(f, &b, &spec);
    expect(f, &b, CHANGES, "");
    client_drop(&b.c);
    free(b.c.frames);
    assert_true(ask(f, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &stop).ok);
    a = must_take(f, &spec);
    assert_true(a.layer.files > 15 && a.layer.frozen_us == 0);
    expect_names_left_out(f);
    expect_clean(f);
    spec.resume_disk = true;
    open_box(f, &b, &spec);
    expect_same_in_another(f, &b, "host " SNAP);
    close_box(f, &b);
    drop_layer(f, SNAP);
    assert_int_equal(take(f, &spec, SNAP).error.kind, ATOLL_ERR_NOT_FOUND);
}

static void of_a_kept_image(void **state)
{
    struct fixture *f = need(state);
    of_a_kept_disk(f, on_an_image(f, true));
}

static void of_a_kept_disk_in_the_pool(void **state)
{
    struct fixture *f = need(state);
    of_a_kept_disk(f, in_the_pool(f, true));
}

/* On a stack without the host template. */
static void of_an_image_of_layers(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, BASE);
    struct stat st;
    struct box b;

    put_base(f);
    open_box(f, &b, &spec);
    expect(f, &b, "rm /top; rm -r /d; mkdir /d; echo x > /d/new; chown 1000 /d/new", "");
    (void)must_take(f, &spec);
    assert_int_equal(lstat(path_of(f, SNAP, "top"), &st), 0);
    assert_true(S_ISCHR(st.st_mode) && st.st_rdev == 0);
    assert_int_equal(lstat(path_of(f, SNAP, "d/new"), &st), 0);
    assert_int_equal(st.st_uid, owner(f) + 1000);
    assert_int_equal(getxattr(path_of(f, SNAP, "d"), "user.overlay.opaque", NULL, 0), 1);
    assert_int_equal(getxattr(path_of(f, SNAP, "d"), "user.overlay.origin", NULL, 0), -1);
    close_box(f, &b);
    spec = spec_of(f, ATOLL_BUILDER_NONE, BASE " " SNAP);
    open_box(f, &b, &spec);
    expect(f, &b, "ls /d /top 2>/dev/null; stat -c %u /d/new", "/d:\nnew\n1000\n");
    /* Snapshots stack. */
    expect(f, &b, "rm /d/new; echo y > /top", "");
    assert_true(take(f, &spec, "snap2").ok);
    close_box(f, &b);
    spec = spec_of(f, ATOLL_BUILDER_NONE, BASE " " SNAP " snap2");
    open_box(f, &b, &spec);
    expect(f, &b, "ls /d; cat /top", "y\n");
    close_box(f, &b);
    drop_layer(f, "snap2");
    drop_layer(f, SNAP);
}

/* --- while processes write --- */

/* Each turn writes to `a` and then the same to `b`, by every way to write: whole files that are renamed
 * to their place, bytes in place, and stores to mapped memory, which do not change the times of a file. */
#define WRITER                                                                                      \
    "cat > /tmp/writer.py <<'END'\n"                                                                \
    "import mmap, os\n"                                                                             \
    "os.makedirs('/srv/w', exist_ok=True); os.chdir('/srv/w')\n"                                    \
    "def mapped(name):\n"                                                                           \
    "    with open(name, 'wb+') as f:\n"                                                            \
    "        f.truncate(4096); return mmap.mmap(f.fileno(), 4096)\n"                                \
    "def renamed(name, text):\n"                                                                    \
    "    with open(name + '~', 'w') as f: f.write(text)\n"                                          \
    "    os.rename(name + '~', name)\n"                                                             \
    "a, b = mapped('mapped-a'), mapped('mapped-b')\n"                                               \
    "pa, pb = (os.open(n, os.O_RDWR | os.O_CREAT) for n in ('place-a', 'place-b'))\n"               \
    "turn = 0\n"                                                                                    \
    "while True:\n"                                                                                 \
    "    turn += 1; text = '%09d' % turn\n"                                                         \
    "    a[:9] = text.encode(); b[:9] = text.encode()\n"                                            \
    "    os.pwrite(pa, text.encode(), 0); os.pwrite(pb, text.encode(), 0)\n"                        \
    "    renamed('name-a', text); renamed('name-b', text)\n"                                        \
    "    if turn == 20: open('/srv/w/ready', 'w').close()\n"                                        \
    "END\n"                                                                                         \
    "mkdir -p /srv/bulk; for i in $(seq 300); do head -c 20000 /dev/urandom > /srv/bulk/$i; done; " \
    "python3 /tmp/writer.py >/dev/null 2>&1 & while ! test -e /srv/w/ready; do sleep 0.01; done"

static long number_in(const struct fixture *f, const char *path)
{
    char text[16] = "";
    int fd = open(path_of(f, SNAP, path), O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(atoll_fd_read_all(fd, text, 9), 0);
    (void)close(fd);
    return strtol(text, NULL, 10);
}

/* a is written before b, so a is never older, and at most one turn newer. */
static void expect_order(const struct fixture *f, const char *a, const char *b)
{
    long first = number_in(f, a), second = number_in(f, b);

    if (first < second || first > second + 1)
        fail_msg("%s has %ld, %s has %ld", a, first, b, second);
}

static void expect_one_moment(struct fixture *f, const struct atoll_spec *spec)
{
    struct answer a = must_take(f, spec);

    assert_true(a.layer.frozen_us > 0);
    expect_order(f, "srv/w/mapped-a", "srv/w/mapped-b");
    expect_order(f, "srv/w/place-a", "srv/w/place-b");
    expect_order(f, "srv/w/name-a", "srv/w/name-b");
    expect_order(f, "srv/w/mapped-a", "srv/w/place-a");
    expect_order(f, "srv/w/mapped-a", "srv/w/name-b");
    drop_layer(f, SNAP);
}

static void is_of_one_moment(struct fixture *f, const struct atoll_spec *spec)
{
    struct box b;
    long before;

    open_box(f, &b, spec);
    expect(f, &b, WRITER, "");
    for (int i = 0; i < 5; i++)
        expect_one_moment(f, spec);
    /* It goes on. */
    (void)must_take(f, spec);
    before = number_in(f, "srv/w/place-a");
    drop_layer(f, SNAP);
    expect(f, &b, "old=$(cat /srv/w/place-a); while test $old = $(cat /srv/w/place-a); do :; done",
           "");
    (void)must_take(f, spec);
    assert_true(number_in(f, "srv/w/place-a") > before);
    drop_layer(f, SNAP);
    close_box(f, &b);
}

static void is_of_one_moment_in_memory(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    is_of_one_moment(f, &spec);
}

static void is_of_one_moment_on_an_image(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = on_an_image(f, false);
    is_of_one_moment(f, &spec);
}

static void is_of_one_moment_in_the_pool(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = in_the_pool(f, false);
    is_of_one_moment(f, &spec);
}

static void a_paused_sandbox_stays_paused(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct atoll_sm_freeze freeze = {spec.id, 1};
    struct box b;
    long number;

    open_box(f, &b, &spec);
    expect(f, &b, WRITER, "");
    assert_true(ask(f, ATOLL_SPAWN_FREEZE, &atoll_sm_freeze_desc, &freeze).ok);
    assert_int_equal(must_take(f, &spec).layer.frozen_us, 0);
    number = number_in(f, "srv/w/place-a");
    drop_layer(f, SNAP);
    (void)must_take(f, &spec);
    assert_int_equal(number_in(f, "srv/w/place-a"), number);
    drop_layer(f, SNAP);
    freeze.frozen = 0;
    assert_true(ask(f, ATOLL_SPAWN_FREEZE, &atoll_sm_freeze_desc, &freeze).ok);
    expect(f, &b, "echo lives", "lives\n");
    close_box(f, &b);
}

/* --- what ends it --- */

static struct answer answer_to(struct fixture *f)
{
    struct answer a = {0};

    while (!a.got) {
        struct pollfd p = {.fd = f->channel.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
        assert_true(atoll_channel_receive(&f->channel, on_frame, &a) >= 0);
    }
    return a;
}

#define BULK "mkdir /srv/b; for i in $(seq 200); do head -c 100000 /dev/zero > /srv/b/$i; done"

/* Two at once: the second is refused. Then the sandbox is removed in the middle. */
static void a_removal_ends_it(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct atoll_sm_remove ref = {.id = spec.id};
    struct answer a;
    struct box b;

    open_box(f, &b, &spec);
    expect(f, &b, BULK, "");
    (void)send_snapshot(f, &spec, SNAP);
    (void)send_snapshot(f, &spec, "other");
    a = answer_to(f);
    assert_false(a.ok);
    assert_int_equal(a.error.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_int_equal(atoll_channel_send(&f->channel, ATOLL_SPAWN_REMOVE, ++f->next_id,
                                        &atoll_sm_remove_desc, &ref, NULL, 0),
                     0);
    assert_true(atoll_channel_flush(&f->channel) >= 0);
    a = answer_to(f);
    if (!a.ok) {
        assert_int_equal(a.error.kind, ATOLL_ERR_ABORTED);
        assert_false(has(f, SNAP, ""));
    }
    assert_true(answer_to(f).ok); /* of the removal */
    expect_clean(f);
    client_drop(&b.c);
    free(b.c.frames);
    if (has(f, SNAP, ""))
        drop_layer(f, SNAP);
}

/* The daemon dies: the sandbox goes on, without a layer that no daemon knows. */
static void a_lost_daemon_ends_it(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct atoll_error err;
    struct box b;
    int fd;

    open_box(f, &b, &spec);
    expect(f, &b, BULK, "");
    (void)send_snapshot(f, &spec, SNAP);
    atoll_channel_done(&f->channel);
    assert_int_equal(atoll_spawn_connect(f->state, NULL, NULL, &fd, &f->info, &err), 0);
    assert_int_equal(atoll_channel_init(&f->channel, fd, 1024 * 1024), 0);
    expect_clean(f);
    assert_false(has(f, SNAP, ""));
    expect(f, &b, "echo lives", "lives\n");
    (void)must_take(f, &spec);
    drop_layer(f, SNAP);
    close_box(f, &b);
}

static void names_are_checked(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct box b;

    assert_int_equal(take(f, &spec, SNAP).error.kind, ATOLL_ERR_NOT_FOUND);
    open_box(f, &b, &spec);
    assert_int_equal(take(f, &spec, "../x").error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_int_equal(take(f, &spec, "").error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    put_directory(f, "taken", "");
    put_file(f, "taken", "x", "x");
    assert_int_equal(take(f, &spec, "taken").error.kind, ATOLL_ERR_ALREADY_EXISTS);
    assert_true(has(f, "taken", "x"));
    expect_clean(f);
    close_box(f, &b);
    drop_layer(f, "taken");
}

/* A tree that cannot be copied has an answer, and one with a hostile shape is copied as it is. */
static void deep_trees(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct answer a;
    struct box b;

    open_box(f, &b, &spec);
    expect(f, &b,
           "python3 -c '\nimport os\nos.chdir(\"/srv\")\n"
           "for i in range(1000):\n os.mkdir(\"d\"); os.chdir(\"d\")\nopen(\"end\", \"w\")'",
           "");
    a = must_take(f, &spec);
    assert_true(a.layer.files > 1001);
    drop_layer(f, SNAP);
    expect(f, &b,
           "python3 -c '\nimport os\nos.chdir(\"/srv\")\n"
           "for i in range(3000):\n os.path.exists(\"d\") or os.mkdir(\"d\"); os.chdir(\"d\")'",
           "");
    a = take(f, &spec, SNAP);
    assert_false(a.ok);
    assert_int_equal(a.error.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(a.error.text, "longer than"));
    expect_clean(f);
    expect(f, &b, "echo lives", "lives\n");
    close_box(f, &b);
}

/* Each of 9,000 files has two names of about 4,000 bytes: more than the memory for names. */
static void too_many_hard_links(void **state)
{
    struct fixture *f = need(state);
    struct atoll_spec spec = spec_of(f, ATOLL_BUILDER_NONE, NULL);
    struct answer a;
    struct box b;

    spec.limits.inodes = 20000;
    open_box(f, &b, &spec);
    expect(f, &b,
           "python3 -c '\nimport os\nos.chdir(\"/srv\")\n"
           "for i in range(16):\n os.mkdir(\"d\" * 250); os.chdir(\"d\" * 250)\n"
           "for i in range(9000):\n open(str(i), \"w\"); os.link(str(i), \"l%d\" % i)'",
           "");
    a = take(f, &spec, SNAP);
    assert_false(a.ok);
    assert_int_equal(a.error.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(a.error.text, "too many hard links"));
    expect_clean(f);
    expect(f, &b, "rm -r /srv/d*; echo lives", "lives\n");
    (void)must_take(f, &spec); /* the control */
    drop_layer(f, SNAP);
    close_box(f, &b);
}

/* --- without root: the copying by itself, in a user namespace with one id --- */

static void write_text(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) < 0)
        _exit(3);
}

/* 0: there is no such file. */
static ino_t inode_of(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_ino : 0;
}

#define STEP(condition) \
    if (!(condition))   \
    _exit(__LINE__ - copy_in_namespace_line)

static const int copy_in_namespace_line = __LINE__;
static void copy_in_namespace(int from, int to)
{
    static const char *const skip[] = {"hosts", NULL};
    struct atoll_upper *u = atoll_upper_new(
        &(struct atoll_upper_options){.from = from, .to = to, .userxattr = true, .skip = skip});
    char text[8];
    ino_t quiet;
    int open_fd;

    write_text(from, "quiet", "q");
    write_text(from, "loud", "1");
    write_text(from, "gone", "g");
    write_text(from, "hosts", "h");
    STEP(mkdirat(from, "locked", 0700) == 0 && mkdirat(from, "was", 0700) == 0);
    write_text(from, "locked/in", "in");
    STEP(fchmodat(from, "locked", 0, 0) == 0);
    STEP(mknodat(from, "white", S_IFCHR, 0) == 0);
    (void)usleep(20000); /* the times are over */
    open_fd = openat(from, "loud", O_RDWR | O_CLOEXEC);
    STEP(atoll_upper_pass(u, false) == 0);
    quiet = inode_of(to, "quiet");
    STEP(quiet && inode_of(to, "loud") && inode_of(to, "locked/in") && !inode_of(to, "hosts"));
    STEP(pwrite(open_fd, "2", 1, 0) == 1 && unlinkat(from, "gone", 0) == 0);
    STEP(renameat(from, "was", from, "is") == 0);
    STEP(atoll_upper_pass(u, true) == 0);
    STEP(inode_of(to, "quiet") == quiet);
    STEP(atoll_fd_read_file(to, "loud", text, sizeof(text)) == 1 && *text == '2');
    STEP(!inode_of(to, "gone") && !inode_of(to, "was") && inode_of(to, "is"));
    STEP(atoll_upper_sum(u).files == 6 && atoll_upper_again(u) > 0);
    (void)atoll_upper_free(u);
    _exit(0);
}

static int put_id_map(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

    return fd < 0 || n < 0 || close(fd) < 0 ? -1 : 0;
}

static void copying_without_root(void **state)
{
    char from[] = "/tmp/atoll-from-XXXXXX", to[] = "/tmp/atoll-to-XXXXXX";
    int status;
    pid_t pid;

    (void)need(state);
    assert_non_null(mkdtemp(from));
    assert_non_null(mkdtemp(to));
    assert_int_equal(chown(from, 65534, 65534), 0);
    assert_int_equal(chown(to, 65534, 65534), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
            setresuid(65534, 65534, 65534) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
            unshare(CLONE_NEWUSER) < 0)
            _exit(100);
        if (put_id_map("/proc/self/setgroups", "deny") < 0 ||
            put_id_map("/proc/self/uid_map", "0 65534 1") < 0 ||
            put_id_map("/proc/self/gid_map", "0 65534 1") < 0)
            _exit(101);
        copy_in_namespace(open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                          open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, from), 0);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, to), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int setup_as_root(void **state)
{
    return geteuid() == 0 && access(BUSYBOX, X_OK) == 0 ? setup(state) : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_disk_in_memory),
        cmocka_unit_test(of_a_stack),
        cmocka_unit_test(of_an_image),
        cmocka_unit_test(of_a_kept_image),
        cmocka_unit_test(of_a_disk_in_the_pool),
        cmocka_unit_test(of_a_kept_disk_in_the_pool),
        cmocka_unit_test(of_an_image_of_layers),
        cmocka_unit_test(is_of_one_moment_in_memory),
        cmocka_unit_test(is_of_one_moment_on_an_image),
        cmocka_unit_test(is_of_one_moment_in_the_pool),
        cmocka_unit_test(a_paused_sandbox_stays_paused),
        cmocka_unit_test(a_removal_ends_it),
        cmocka_unit_test(a_lost_daemon_ends_it),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(deep_trees),
        cmocka_unit_test(too_many_hard_links),
        cmocka_unit_test(copying_without_root),
    };
    return cmocka_run_group_tests(tests, setup_as_root, teardown);
}
