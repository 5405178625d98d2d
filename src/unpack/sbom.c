#include "unpack/sbom.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include "base/fd.h"
#include "base/map.h"
#include "unpack/sbom_parse.h"

#define FILE_MAX ((size_t)64 * 1024 * 1024)
#define PACKAGES_MAX 500000
#define PURL_MAX 2048

/* A package as a file of a layer names it. */
struct found {
    enum atoll_sbom_kind kind;
    size_t layer;
    char *path;                            /* owned; of the file, in the tree */
    char *name, *version, *arch, *license; /* owned */
};

struct sbom {
    struct found *found; /* owned */
    size_t count, room;
    /* Of the file being read. */
    enum atoll_sbom_kind kind;
    size_t layer;
    const char *path;
    bool failed; /* no memory, or too many packages */
};

static void found_done(struct found *f)
{
    free(f->path);
    free(f->name);
    free(f->version);
    free(f->arch);
    free(f->license);
}

static void sbom_done(struct sbom *s)
{
    for (size_t i = 0; i < s->count; i++)
        found_done(&s->found[i]);
    free(s->found);
}

static void add(void *arg, const struct atoll_sbom_package *package)
{
    struct sbom *s = arg;
    struct found *f;

    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 256;
        struct found *grown =
            room > PACKAGES_MAX * 2 ? NULL : reallocarray(s->found, room, sizeof(*grown));

        if (!grown) {
            s->failed = true;
            return;
        }
        s->found = grown;
        s->room = room;
    }
    f = &s->found[s->count++];
    *f = (struct found){.kind = s->kind,
                        .layer = s->layer,
                        .path = strdup(s->path),
                        .name = strdup(package->name),
                        .version = strdup(package->version),
                        .arch = strdup(package->arch),
                        .license = strdup(package->license)};
    if (!f->path || !f->name || !f->version || !f->arch || !f->license)
        s->failed = true;
}

/* Whether path is the directory or file at prefix, or below it; "" is above all. */
static bool is_below(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    return n == 0 || (strncmp(path, prefix, n) == 0 && (path[n] == '/' || path[n] == '\0'));
}

/* Forgets what lower layers have at path and below it. */
static void hide(struct sbom *s, const char *path)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (s->found[i].layer < s->layer && is_below(s->found[i].path, path))
            found_done(&s->found[i]);
        else
            s->found[kept++] = s->found[i];
    }
    s->count = kept;
}

static int read_file(const char *path, char **ret, size_t *ret_n)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ATOLL_AUTOFREE char *text = NULL;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size > FILE_MAX)
        return -EFBIG;
    text = malloc((size_t)st.st_size + 1);
    if (!text)
        return -ENOMEM;
    r = atoll_fd_read_all(fd, text, (size_t)st.st_size);
    if (r < 0)
        return r;
    text[st.st_size] = '\0';
    *ret_n = (size_t)st.st_size;
    *ret = ATOLL_TAKE_PTR(text);
    return 0;
}

/* A file that cannot be read counts as one without packages. */
static void take_file(struct sbom *s, const char *path, const char *full)
{
    static const struct atoll_sbom_package unread = {"rpm", "", "", ""};
    char *text = NULL;
    size_t n = 0;

    s->kind = atoll_sbom_kind(path);
    if (s->kind == ATOLL_SBOM_NONE)
        return;
    hide(s, path);
    s->path = path;
    if (s->kind == ATOLL_SBOM_UNREAD) {
        add(s, &unread);
    } else if (read_file(full, &text, &n) == 0) {
        atoll_sbom_parse(s->kind, text, n, add, s);
        free(text);
    }
}

static void take_entry(struct sbom *s, const FTSENT *entry, size_t root_len)
{
    const char *path = entry->fts_path + root_len;
    char value[2];

    path += *path == '/';
    switch (entry->fts_info) {
    case FTS_F:
        take_file(s, path, entry->fts_accpath);
        break;
    case FTS_D:
        if (getxattr(entry->fts_accpath, "user.overlay.opaque", value, sizeof(value)) == 1 &&
            value[0] == 'y')
            hide(s, path);
        break;
    case FTS_DEFAULT:
        if (S_ISCHR(entry->fts_statp->st_mode) && entry->fts_statp->st_rdev == 0)
            hide(s, path);
        break;
    default:
        break;
    }
}

static int take_layer(struct sbom *s, char *dir, struct atoll_error *err)
{
    char *const dirs[] = {dir, NULL};
    FTS *walk = fts_open(dirs, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    const FTSENT *entry;
    int errnum;

    if (!walk)
        return atoll_fail_errno(err, errno, "open %s", dir);
    while ((errno = 0, entry = fts_read(walk)) && !s->failed) {
        if (entry->fts_level == 0 && entry->fts_info == FTS_NS)
            break;
        take_entry(s, entry, strlen(dir));
    }
    errnum = entry ? entry->fts_errno : errno;
    (void)fts_close(walk);
    if (s->failed)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "too many packages");
    return errnum ? atoll_fail_errno(err, errnum, "read %s", dir) : 0;
}

/* Percent-encodes what a package URL does not permit. */
static void append_encoded(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);

    for (; *text && n + 4 < cap; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            strchr("-._~:/", c))
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, cap - n, "%%%02X", c);
    }
    out[n] = '\0';
}

static void append(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);
    (void)snprintf(out + n, cap - n, "%s", text);
}

/* https://github.com/package-url/purl-spec */
static void purl_of(const struct found *f, const char *distribution, char *out, size_t cap)
{
    static const char *const types[] = {[ATOLL_SBOM_DEB] = "deb",
                                        [ATOLL_SBOM_APK] = "apk",
                                        [ATOLL_SBOM_PYPI] = "pypi",
                                        [ATOLL_SBOM_NPM] = "npm"};
    bool system = f->kind == ATOLL_SBOM_DEB || f->kind == ATOLL_SBOM_APK;

    (void)snprintf(out, cap, "pkg:%s/", types[f->kind]);
    if (system) {
        append_encoded(out, cap,
                       *distribution               ? distribution
                       : f->kind == ATOLL_SBOM_DEB ? "debian"
                                                   : "alpine");
        append(out, cap, "/");
    }
    append_encoded(out, cap, f->name);
    append(out, cap, "@");
    append_encoded(out, cap, f->version);
    if (system && *f->arch) {
        append(out, cap, "?arch=");
        append_encoded(out, cap, f->arch);
    }
}

/* Replaces bytes that are not UTF-8, which JSON cannot hold. */
static json_t *text_of(const char *text)
{
    json_t *value = json_string(text);

    return value ? value : json_string("");
}

static json_t *property(const char *name, const char *value)
{
    return json_pack("{s:s, s:o}", "name", name, "value", text_of(value));
}

static json_t *component_of(const struct found *f, const char *purl)
{
    json_t *c = json_pack("{s:s, s:s, s:o, s:o, s:s, s:[o]}", "type", "library", "bom-ref", purl,
                          "name", text_of(f->name), "version", text_of(f->version), "purl", purl,
                          "properties", property("atoll:path", f->path));

    if (c && *f->license)
        (void)!json_object_set_new(
            c, "licenses", json_pack("[{s:{s:o}}]", "license", "name", text_of(f->license)));
    return c;
}

struct named {
    const struct found *found;
    char purl[PURL_MAX];
};

static int by_purl(const void *a, const void *b)
{
    const struct named *const *x = a, *const *y = b;
    int order = strcmp((*x)->purl, (*y)->purl);
    size_t m = strlen((*x)->found->path), n = strlen((*y)->found->path);

    /* Of several copies the one with the shortest path is named. */
    if (order == 0)
        order = (m > n) - (m < n);
    return order ? order : strcmp((*x)->found->path, (*y)->found->path);
}

static const struct found *system_of(const struct sbom *s)
{
    const struct found *os = NULL;

    for (size_t i = 0; i < s->count; i++)
        if (s->found[i].kind == ATOLL_SBOM_OS)
            os = &s->found[i];
    return os;
}

static bool is_package(const struct found *f)
{
    return f->kind != ATOLL_SBOM_OS && f->kind != ATOLL_SBOM_UNREAD;
}

/* Adds components in the order of their URLs, each of them once. */
static void add_components(const struct sbom *s, const char *distribution, json_t *components)
{
    struct named *all = calloc(s->count + 1, sizeof(*all));
    struct named **sorted = calloc(s->count + 1, sizeof(*sorted));
    size_t n = 0;

    if (!all || !sorted)
        abort();
    for (size_t i = 0; i < s->count; i++) {
        if (!is_package(&s->found[i]))
            continue;
        all[n].found = &s->found[i];
        purl_of(&s->found[i], distribution, all[n].purl, sizeof(all[n].purl));
        sorted[n] = &all[n];
        n++;
    }
    qsort(sorted, n, sizeof(struct named *), by_purl);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(sorted[i]->purl, sorted[i - 1]->purl) != 0)
            (void)!json_array_append_new(components,
                                         component_of(sorted[i]->found, sorted[i]->purl));
    free(all);
    free(sorted);
}

static json_t *bom_of(const struct sbom *s, const char *name)
{
    const struct found *os = system_of(s);
    json_t *components = json_array(), *properties = json_array();
    json_t *metadata = json_pack("{s:{s:s, s:o}, s:o}", "component", "type", "container", "name",
                                 text_of(name ? name : "unnamed"), "properties", properties);

    for (size_t i = 0; i < s->count; i++)
        if (s->found[i].kind == ATOLL_SBOM_UNREAD)
            (void)!json_array_append_new(properties, property("atoll:unread", s->found[i].path));
    if (os)
        (void)!json_array_append_new(components,
                                     json_pack("{s:s, s:s, s:o, s:o}", "type", "operating-system",
                                               "bom-ref", "os", "name", text_of(os->name),
                                               "version", text_of(os->version)));
    add_components(s, os ? os->name : "", components);
    return json_pack("{s:s, s:s, s:i, s:o, s:o}", "bomFormat", "CycloneDX", "specVersion", "1.5",
                     "version", 1, "metadata", metadata, "components", components);
}

static int write_bom(const struct sbom *s, const char *name, int out, struct atoll_error *err)
{
    json_t *bom = bom_of(s, name);
    int r = bom ? json_dumpfd(bom, out, JSON_COMPACT) : -1;

    json_decref(bom);
    if (r == 0)
        r = atoll_fd_write_all(out, "\n", 1);
    return r < 0 ? atoll_fail_errno(err, EIO, "write the list of packages") : 0;
}

int atoll_sbom_write(char *const *dirs, size_t count, const char *name, int out,
                     struct atoll_error *err)
{
    struct sbom s = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < count; i++) {
        s.layer = i;
        r = take_layer(&s, dirs[i], err);
    }
    if (r == 0)
        r = write_bom(&s, name, out, err);
    sbom_done(&s);
    return r;
}
