#include <stdio.h>
#include <string.h>
#include "api/e2b/filesystem.h"
#include "base/clock.h"

const char *atoll_entry_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* A symbolic link has the type of its target; a dangling one has no type. */
static const char *type_name(const struct atoll_am_entry *e)
{
    uint8_t type = e->type == ATOLL_ENTRY_SYMLINK ? e->resolved_type : e->type;

    switch (type) {
    case ATOLL_ENTRY_FILE:
        return "FILE_TYPE_FILE";
    case ATOLL_ENTRY_DIRECTORY:
        return "FILE_TYPE_DIRECTORY";
    default:
        return "FILE_TYPE_UNSPECIFIED";
    }
}

/* Permissions as Go prints them: "drwxr-xr-x", "Lrwxrwxrwx", "dtrwxrwxrwx". out holds 16 bytes. */
static void format_permissions(const struct atoll_am_entry *e, char *out)
{
    static const char bits[] = "rwxrwxrwx";
    size_t n = 0;

    if (e->type == ATOLL_ENTRY_DIRECTORY)
        out[n++] = 'd';
    if (e->type == ATOLL_ENTRY_SYMLINK)
        out[n++] = 'L';
    if (e->mode & 04000)
        out[n++] = 'u';
    if (e->mode & 02000)
        out[n++] = 'g';
    if (e->mode & 01000)
        out[n++] = 't';
    if (n == 0)
        out[n++] = '-';
    for (int i = 0; i < 9; i++)
        out[n++] = e->mode & (0400u >> i) ? bits[i] : '-';
    out[n] = '\0';
}

static bool is_key(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p < 0x21 || *p > 0x7e || *p == '"' || *p == '\\')
            return false;
    return *text != '\0';
}

void atoll_entry_write_metadata(struct atoll_json_out *out, const struct atoll_am_entry *e)
{
    size_t prefix = strlen(ATOLL_ENVD_ATTRIBUTES);
    const char *name, *value;
    bool open = false;

    for (size_t pos = 0; atoll_entry_attribute(e, &pos, &name, &value);) {
        /* Names come from the tenant, and keys are written unescaped, so they are checked. */
        if (strncmp(name, ATOLL_ENVD_ATTRIBUTES, prefix) != 0 || !is_key(name + prefix))
            continue;
        if (!open)
            atoll_json_open(out, "metadata", '{');
        open = true;
        atoll_json_text(out, name + prefix, value);
    }
    if (open)
        atoll_json_close(out, '}');
}

void atoll_entry_write(struct atoll_json_out *out, const char *key, const struct atoll_am_entry *e)
{
    bool is_link = e->type == ATOLL_ENTRY_SYMLINK;
    uint32_t mode = is_link && e->resolved_type ? e->resolved_mode : e->mode;
    char text[ATOLL_CLOCK_TEXT_MAX], permissions[16];

    atoll_json_open(out, key, '{');
    atoll_json_text(out, "name", atoll_entry_name(e->path));
    atoll_json_text(out, "type", type_name(e));
    atoll_json_text(out, "path", e->path);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)e->size_bytes);
    atoll_json_text(out, "size", text);
    atoll_json_u64(out, "mode", mode & 0777);
    format_permissions(e, permissions);
    atoll_json_text(out, "permissions", permissions);
    atoll_json_text(out, "owner", e->owner);
    atoll_json_text(out, "group", e->group);
    atoll_json_text(out, "modifiedTime", atoll_clock_format(e->mtime_ms, text));
    if (is_link)
        atoll_json_text(out, "symlinkTarget", *e->resolved ? e->resolved : e->target);
    atoll_entry_write_metadata(out, e);
    atoll_json_close(out, '}');
}
