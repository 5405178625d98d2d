#include "unpack/sbom_parse.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

/* Keys of "KEY: value" lines; blocks of them are separated by empty lines. */
struct format {
    const char *name, *version, *arch, *license;
    const char *status; /* if the key is there, its value ends with " installed" */
    bool one_block;     /* what follows the first empty line is text */
};

static const struct format formats[] = {
    [ATOLL_SBOM_DEB] = {"Package", "Version", "Architecture", NULL, "Status", false},
    [ATOLL_SBOM_APK] = {"P", "V", "A", "L", NULL, false},
    [ATOLL_SBOM_PYPI] = {"Name", "Version", NULL, "License", NULL, true},
};

static bool ends(const char *text, const char *suffix)
{
    size_t n = strlen(text), len = strlen(suffix);
    return n >= len && strcmp(text + n - len, suffix) == 0;
}

/* ".../node_modules/NAME/package.json", or with a scope "@SCOPE/NAME". */
static bool is_npm(const char *path)
{
    const char *at = strstr(path, "node_modules/"), *next;
    size_t n;

    while (at && (next = strstr(at + 1, "node_modules/")))
        at = next;
    if (!at || (at != path && at[-1] != '/') || !ends(path, "/package.json"))
        return false;
    at += strlen("node_modules/");
    n = strcspn(at, "/");
    if (*at == '@' && at[n] == '/')
        n += 1 + strcspn(at + n + 1, "/");
    return strcmp(at + n, "/package.json") == 0;
}

enum atoll_sbom_kind atoll_sbom_kind(const char *path)
{
    static const struct {
        const char *path;
        enum atoll_sbom_kind kind;
    } paths[] = {
        {"var/lib/dpkg/status", ATOLL_SBOM_DEB},
        {"lib/apk/db/installed", ATOLL_SBOM_APK},
        {"usr/lib/apk/db/installed", ATOLL_SBOM_APK},
        {"etc/os-release", ATOLL_SBOM_OS},
        {"usr/lib/os-release", ATOLL_SBOM_OS},
        {"var/lib/rpm/rpmdb.sqlite", ATOLL_SBOM_UNREAD},
        {"var/lib/rpm/Packages", ATOLL_SBOM_UNREAD},
        {"var/lib/rpm/Packages.db", ATOLL_SBOM_UNREAD},
        {"usr/lib/sysimage/rpm/rpmdb.sqlite", ATOLL_SBOM_UNREAD},
        {"usr/lib/sysimage/rpm/Packages.db", ATOLL_SBOM_UNREAD},
    };
    static const char distroless[] = "var/lib/dpkg/status.d/";

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(paths); i++)
        if (strcmp(path, paths[i].path) == 0)
            return paths[i].kind;
    if (strncmp(path, distroless, strlen(distroless)) == 0)
        return ends(path, ".md5sums") ? ATOLL_SBOM_NONE : ATOLL_SBOM_DEB;
    if (ends(path, ".dist-info/METADATA") || ends(path, ".egg-info/PKG-INFO"))
        return ATOLL_SBOM_PYPI;
    return is_npm(path) ? ATOLL_SBOM_NPM : ATOLL_SBOM_NONE;
}

static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (isspace((unsigned char)*text))
        text++;
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static void give(const struct atoll_sbom_package *p, bool installed, atoll_sbom_fn *fn, void *arg)
{
    if (*p->name && *p->version && installed)
        fn(arg, p);
}

static const struct atoll_sbom_package no_package = {"", "", "", ""};

/* Takes a line of a block. */
static void take_line(const struct format *f, char *line, struct atoll_sbom_package *p,
                      bool *installed)
{
    const struct {
        const char *key;
        const char **value;
    } fields[] = {{f->name, &p->name},
                  {f->version, &p->version},
                  {f->arch, &p->arch},
                  {f->license, &p->license}};
    char *colon = strchr(line, ':');
    char *value;

    if (!colon || isspace((unsigned char)*line))
        return;
    *colon = '\0';
    value = trim(colon + 1);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++)
        if (fields[i].key && strcmp(line, fields[i].key) == 0)
            *fields[i].value = value;
    if (f->status && strcmp(line, f->status) == 0)
        *installed = ends(value, " installed");
}

static void parse_blocks(const struct format *f, char *text, atoll_sbom_fn *fn, void *arg)
{
    struct atoll_sbom_package p = no_package;
    bool installed = true;
    char *line;

    while ((line = strsep(&text, "\n"))) {
        if (*line && strcmp(line, "\r") != 0) {
            take_line(f, line, &p, &installed);
            continue;
        }
        give(&p, installed, fn, arg);
        if (f->one_block)
            return;
        p = no_package;
        installed = true;
    }
    give(&p, installed, fn, arg);
}

/* "KEY=value", with or without quotes. */
static void parse_os(char *text, atoll_sbom_fn *fn, void *arg)
{
    struct atoll_sbom_package p = no_package;
    char *line;

    while ((line = strsep(&text, "\n"))) {
        char *value = strchr(line, '=');
        size_t n;

        if (!value)
            continue;
        *value = '\0';
        value = trim(value + 1);
        n = strlen(value);
        if (n >= 2 && (*value == '"' || *value == '\'') && value[n - 1] == *value) {
            value[n - 1] = '\0';
            value++;
        }
        if (strcmp(line, "ID") == 0)
            p.name = value;
        else if (strcmp(line, "VERSION_ID") == 0)
            p.version = value;
    }
    if (*p.name)
        fn(arg, &p);
}

static void parse_npm(const char *text, size_t n, atoll_sbom_fn *fn, void *arg)
{
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    struct atoll_sbom_package p = no_package;

    /* Left as they are if they are not strings. */
    if (root) {
        (void)!json_unpack(root, "{s:s}", "name", &p.name);
        (void)!json_unpack(root, "{s:s}", "version", &p.version);
        (void)!json_unpack(root, "{s:s}", "license", &p.license);
        give(&p, true, fn, arg);
    }
    json_decref(root);
}

void atoll_sbom_parse(enum atoll_sbom_kind kind, char *text, size_t n, atoll_sbom_fn *fn, void *arg)
{
    switch (kind) {
    case ATOLL_SBOM_DEB:
    case ATOLL_SBOM_APK:
    case ATOLL_SBOM_PYPI:
        parse_blocks(&formats[kind], text, fn, arg);
        break;
    case ATOLL_SBOM_OS:
        parse_os(text, fn, arg);
        break;
    case ATOLL_SBOM_NPM:
        parse_npm(text, n, fn, arg);
        break;
    default:
        break;
    }
}
