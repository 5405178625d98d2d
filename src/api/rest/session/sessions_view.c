#include "api/rest/session/sessions_view.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *extension, *mime;
} types[] = {
    {"txt", "text/plain"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"csv", "text/csv"},
    {"tsv", "text/tab-separated-values"},
    {"html", "text/html"},
    {"htm", "text/html"},
    {"css", "text/css"},
    {"js", "text/javascript"},
    {"mjs", "text/javascript"},
    {"py", "text/x-python"},
    {"sh", "text/x-shellscript"},
    {"c", "text/x-c"},
    {"json", "application/json"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"pdf", "application/pdf"},
    {"zip", "application/zip"},
    {"gz", "application/gzip"},
    {"tar", "application/x-tar"},
    {"wasm", "application/wasm"},
    {"png", "image/png"},
    {"jpg", "image/jpeg"},
    {"jpeg", "image/jpeg"},
    {"gif", "image/gif"},
    {"svg", "image/svg+xml"},
    {"webp", "image/webp"},
    {"mp3", "audio/mpeg"},
    {"wav", "audio/wav"},
    {"mp4", "video/mp4"},
    {"webm", "video/webm"},
};

const char *atoll_mime_of_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && dot > name && i < ATOLL_ARRAY_LEN(types); i++)
        if (strcasecmp(dot + 1, types[i].extension) == 0)
            return types[i].mime;
    return "application/octet-stream";
}

void atoll_view_artifacts(struct atoll_json_out *out, const char *key,
                          const struct atoll_session_artifact *files, size_t count, bool changes)
{
    atoll_json_open(out, key, '[');
    for (size_t i = 0; i < count; i++) {
        atoll_json_open(out, NULL, '{');
        atoll_json_bytes(out, "path", files[i].path, strlen(files[i].path));
        atoll_json_u64(out, "size", files[i].size_bytes);
        atoll_json_text(out, "mime", atoll_mime_of_path(files[i].path));
        if (changes)
            atoll_json_text(out, "change", files[i].is_new ? "created" : "modified");
        atoll_json_close(out, '}');
    }
    atoll_json_close(out, ']');
}
