#include "sandbox/host_template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "proto/plan.h"
#include "sandbox/copy_tree.h"
#include "sandbox/programs.h"
#include "sandbox/spec.h"
#include "sandbox/trust.h"
#include "sys/tree.h"

#define COPY_FILES_MAX 8192

static const struct {
    const char *path;
    mode_t mode;
} directories[] = {
    {"usr", 0755},       {"etc", 0755},       {"proc", 0555},          {"dev", 0755},
    {"sys", 0555},       {"tmp", 01777},      {"run", 0755},           {"home", 0755},
    {"root", 0700},      {"mnt", 0755},       {"opt", 0755},           {"srv", 0755},
    {"var", 0755},       {"var/tmp", 01777},  {"var/log", 0755},       {"var/lib", 0755},
    {"var/cache", 0755}, {"var/spool", 0755}, {"etc/profile.d", 0755}, {"etc/pam.d", 0755},
};

/* Links of a merged /usr, which every current distribution has. */
static const char *const usr_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const struct {
    const char *path, *text;
} texts[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                   "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                   "user:x:1000:1000:user:/home/user:/bin/bash\n"
                   /* Default users of sandboxes for clients of Vercel and of Daytona (api/). */
                   "vercel-sandbox:x:1001:1001::/home/vercel-sandbox:/bin/bash\n"
                   "daytona:x:1002:1002::/home/daytona:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ndaemon:x:1:\nadm:x:4:\ntty:x:5:\nsudo:x:27:\nwww-data:x:33:\n"
                  "users:x:100:\nuser:x:1000:\nvercel-sandbox:x:1001:\ndaytona:x:1002:\n"
                  "nogroup:x:65534:\n"},
    {"etc/shadow", "root:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n"
                   "vercel-sandbox:*:19000:0:99999:7:::\ndaytona:*:19000:0:99999:7:::\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                          "networks: files\nprotocols: files\nservices: files\n"},
    {"etc/host.conf", "multi on\n"},
    /* For su and the like, which set-uid bits do not help: root may become every user. */
    {"etc/pam.d/other", "auth sufficient pam_rootok.so\nauth required pam_unix.so\n"
                        "account required pam_permit.so\nsession required pam_permit.so\n"
                        "password required pam_unix.so\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
    {"etc/profile",
     "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport PATH\n"
     "[ -n \"$BASH_VERSION\" ] && PS1='\\u@sandbox:\\w\\$ '\n"
     "for f in /etc/profile.d/*.sh; do [ -r \"$f\" ] && . \"$f\"; done; unset f\n"},
    {"etc/bash.bashrc", "[ -z \"$PS1\" ] && return\nPS1='\\u@sandbox:\\w\\$ '\n"},
};

/* Paths below the host's /etc that programs in /usr need. Missing ones are skipped. */
static const char *const copied[] = {
    "ld.so.cache",
    "login.defs",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates.conf",
    "mime.types",
    "localtime",
    "timezone",
    "protocols",
    "services",
    "magic",
    "magic.mime",
    "inputrc",
    "terminfo",
    "fonts",
    "perl",
    "python3",
    "python3.9",
    "python3.10",
    "python3.11",
    "python3.12",
    "python3.13",
    "R",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ImageMagick-6",
    "ImageMagick-7",
    "matplotlibrc",
    "locale.alias",
    "debian_version",
    "os-release",
};

static int make_directories(int root, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(directories); i++)
        if (mkdirat(root, directories[i].path, 0755) < 0 ||
            fchmodat(root, directories[i].path, directories[i].mode, 0) < 0)
            return atoll_fail_errno(err, errno, "make %s", directories[i].path);
    return 0;
}

/* Makes only links that the host has: a dangling /lib32 is more confusing than a missing one. */
static int make_links(int root, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(usr_links); i++) {
        char target[32];
        struct stat st;

        (void)snprintf(target, sizeof(target), "/usr/%s", usr_links[i]);
        if (stat(target, &st) == 0 && symlinkat(target + 1, root, usr_links[i]) < 0)
            return atoll_fail_errno(err, errno, "link %s", usr_links[i]);
    }
    if (symlinkat("/proc/self/mounts", root, "etc/mtab") < 0 ||
        symlinkat("../run", root, "var/run") < 0)
        return atoll_fail_errno(err, errno, "links");
    return 0;
}

static int write_text(int root, const char *path, const char *text, mode_t mode,
                      struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, text, strlen(text));

    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    return r < 0 ? atoll_fail_errno(err, -r, "write %s", path) : 0;
}

static int fill_etc(int root, int state, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int host_etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ATOLL_AUTOCLOSE int etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned budget = COPY_FILES_MAX;
    int r = 0;

    if (host_etc < 0 || etc < 0)
        return atoll_fail_errno(err, errno, "open /etc");
    /* The link is for programs with an OpenSSL of their own, which often looks there. */
    if (mkdirat(etc, "ssl", 0755) < 0 ||
        symlinkat("certs/ca-certificates.crt", etc, "ssl/cert.pem") < 0)
        return atoll_fail_errno(err, errno, "make etc/ssl");
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(texts); i++)
        r = write_text(root, texts[i].path, texts[i].text,
                       strcmp(texts[i].path, "etc/shadow") == 0 ? 0640 : 0644, err);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(copied); i++) {
        int copy = atoll_copy_tree(host_etc, copied[i], etc, copied[i], &budget);
        if (copy < 0 && copy != -ENOENT && copy != -EACCES)
            r = atoll_fail_errno(err, -copy, "copy etc/%s", copied[i]);
    }
    return r < 0 ? r : atoll_trust_add(state, etc, err);
}

static int make_host(int root, int state, struct atoll_error *err)
{
    int r = make_directories(root, err);

    if (r == 0)
        r = make_links(root, err);
    return r < 0 ? r : fill_etc(root, state, err);
}

/* Our programs inside (sandbox/programs.h). */
static const struct {
    const char *name, *path;
    bool host_only; /* needs libraries of the host */
} programs_inside[] = {
    {"atoll-sudo", "usr/bin/sudo", false},
    {"atoll-copy", &ATOLL_COPY_PROGRAM[1], false},
    {"atoll-diff", &ATOLL_DIFF_PROGRAM[1], false},
    {"atoll-unpack", &ATOLL_UNPACK_PROGRAM[1], true},
};

/* Creates usr with our programs. */
static int make_usr(int root, const char *program_dir, bool host, struct atoll_error *err)
{
    static const char *const made[] = {"usr", "usr/bin", "usr/share", &ATOLL_PROGRAMS_INSIDE[1]};
    ATOLL_AUTOCLOSE int programs = open(program_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (programs < 0)
        return atoll_fail_errno(err, errno, "open the directory of programs");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(made); i++)
        if (mkdirat(root, made[i], 0755) < 0)
            return atoll_fail_errno(err, errno, "make %s", made[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(programs_inside); i++) {
        unsigned budget = 1;
        int r = programs_inside[i].host_only && !host
                    ? 0
                    : atoll_copy_tree(programs, programs_inside[i].name, root,
                                      programs_inside[i].path, &budget);
        if (r < 0)
            return atoll_fail_errno(err, -r, "copy %s", programs_inside[i].name);
    }
    return 0;
}

/* All that a sandbox trusts, for templates that have their own /etc. */
static int add_bundle(int root, int host, struct atoll_error *err)
{
    unsigned budget = 1;
    int r = atoll_copy_tree(host, "etc/" ATOLL_TRUST_BUNDLE, root, &ATOLL_TRUSTED_FILE[1], &budget);

    return r < 0 && r != -ENOENT ? atoll_fail_errno(err, -r, "copy " ATOLL_TRUSTED_FILE) : 0;
}

/* The mount points of a step of a build, and an empty directory. Whatever the stack has there. */
static int make_mounts(int template, struct atoll_error *err)
{
    static const char *const files[] = {"mounts/etc/hostname", "mounts/etc/hosts",
                                        "mounts/etc/resolv.conf"};
    static const struct {
        const char *path;
        mode_t mode;
    } points[] = {{"empty", 0755},      {"mounts", 0755},        {"mounts/etc", 0755},
                  {"mounts/dev", 0755}, {"mounts/.atoll", 0755}, {"mounts/proc", 0555}};
    int r = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(points); i++)
        if (mkdirat(template, points[i].path, points[i].mode) < 0)
            return atoll_fail_errno(err, errno, "make %s", points[i].path);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(files); i++)
        r = write_text(template, files[i], "", 0644, err);
    return r;
}

/* Debian has no `python` unless python-is-python3 is installed, and agents write it. */
static int add_python(int root, struct atoll_error *err)
{
    if (access("/usr/bin/python3", X_OK) < 0 || access("/usr/bin/python", F_OK) == 0)
        return 0;
    return symlinkat("python3", root, "usr/bin/python") < 0
               ? atoll_fail_errno(err, errno, "link python")
               : 0;
}

static size_t add_time(char *out, size_t cap, size_t len, const char *path)
{
    struct stat st = {0};

    (void)stat(path, &st);
    if (len < cap)
        len += (size_t)snprintf(out + len, cap - len, " %lld.%ld", (long long)st.st_mtim.tv_sec,
                                st.st_mtim.tv_nsec);
    return len;
}

/* Identifies the inputs of the layout; if it changes, the layout is built again. */
static void fingerprint(const char *state_dir, const char *program_dir, char *out, size_t cap)
{
    static const char *const sources[] = {"/etc/ld.so.cache", "/etc/alternatives",
                                          "/etc/ssl/certs"};
    char path[4096];
    size_t len = (size_t)snprintf(out, cap, "9");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sources); i++)
        len = add_time(out, cap, len, sources[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(programs_inside); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", program_dir, programs_inside[i].name);
        len = add_time(out, cap, len, path);
    }
    (void)snprintf(path, sizeof(path), "%s/" ATOLL_TRUST_CA, state_dir);
    (void)add_time(out, cap, len, path);
}

/* Running sandboxes still use the current template, so it is renamed; see ATOLL_TEMPLATE_OLD. */
static int put_aside(int state)
{
    for (unsigned number = 0;; number++) {
        char name[32];

        (void)snprintf(name, sizeof(name), ATOLL_TEMPLATE_OLD "%u", number);
        if (renameat(state, "template", state, name) == 0 || errno == ENOENT)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -errno;
    }
}

/* Builds both trees in template.new and installs them with one rename. */
static int make_all(int state, const char *program_dir, const char *mark, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fresh = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int host = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int tools = ATOLL_NO_FD;
    int r = atoll_tree_remove(state, "template.new");

    if (r < 0)
        return atoll_fail_errno(err, -r, "clear template.new");
    if (mkdirat(state, "template.new", 0755) < 0 || mkdirat(state, "template.new/host", 0755) < 0 ||
        mkdirat(state, "template.new/tools", 0755) < 0)
        return atoll_fail_errno(err, errno, "make template.new");
    fresh = openat(state, "template.new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    host = openat(fresh, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tools = openat(fresh, "tools", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fresh < 0 || host < 0 || tools < 0)
        return atoll_fail_errno(err, errno, "open template.new");
    r = make_host(host, state, err);
    if (r == 0)
        r = make_usr(tools, program_dir, false, err);
    if (r == 0)
        r = add_bundle(tools, host, err);
    if (r == 0)
        r = make_usr(fresh, program_dir, true, err);
    if (r == 0)
        r = add_bundle(fresh, host, err);
    if (r == 0)
        r = add_python(fresh, err);
    if (r == 0)
        r = make_mounts(fresh, err);
    if (r == 0)
        r = write_text(fresh, "mark", mark, 0644, err);
    if (r < 0)
        return r;
    r = put_aside(state);
    if (r == 0 && renameat(state, "template.new", state, "template") < 0)
        r = -errno;
    return r < 0 ? atoll_fail_errno(err, -r, "install template") : 0;
}

int atoll_host_template_make(const char *state_dir, const char *program_dir,
                             struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char mark[512], old[512];
    mode_t mask;
    int r;

    if (state < 0)
        return atoll_fail_errno(err, errno, "open the state directory");
    fingerprint(state_dir, program_dir, mark, sizeof(mark));
    if (atoll_fd_read_file(state, "template/mark", old, sizeof(old)) > 0 && strcmp(mark, old) == 0)
        return 0;
    mask = umask(0);
    r = make_all(state, program_dir, mark, err);
    (void)umask(mask);
    return r;
}
