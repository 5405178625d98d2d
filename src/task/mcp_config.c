#include "task/mcp_config.h"

#include <errno.h>
#include <string.h>
#include "engine/json_memory.h"

static bool is_remote(const json_t *server)
{
    return json_object_get(server, "url") != NULL;
}

static bool is_sse(const json_t *server)
{
    const char *type = json_string_value(json_object_get(server, "type"));

    return type && strcmp(type, "sse") == 0;
}

/* --- JSON --- */

static json_t *for_claude(const json_t *server)
{
    json_t *one = json_copy((json_t *)(uintptr_t)server);

    if (is_remote(server))
        (void)json_object_set_new(one, "type", json_string(is_sse(server) ? "sse" : "http"));
    return one;
}

static json_t *for_gemini(const json_t *server)
{
    json_t *one = json_copy((json_t *)(uintptr_t)server);

    (void)json_object_del(one, "type");
    (void)json_object_set_new(one, "trust", json_true());
    if (is_remote(server) && !is_sse(server)) {
        (void)json_object_set(one, "httpUrl", json_object_get(server, "url"));
        (void)json_object_del(one, "url");
    }
    return one;
}

static json_t *for_opencode(const json_t *server)
{
    json_t *command;

    if (is_remote(server))
        return json_pack("{s:s, s:b, s:O, s:O*}", "type", "remote", "enabled", 1, "url",
                         json_object_get(server, "url"), "headers",
                         json_object_get(server, "headers"));
    command = json_pack("[O]", json_object_get(server, "command"));
    (void)json_array_extend(command, json_object_get(server, "args"));
    return json_pack("{s:s, s:b, s:o, s:O*}", "type", "local", "enabled", 1, "command", command,
                     "environment", json_object_get(server, "env"));
}

static int write_json(const json_t *servers, const char *member,
                      json_t *(*make)(const json_t *server), struct atoll_buf *out)
{
    json_t *all = json_object(), *root, *server;
    const char *name;
    char *text;
    int r;

    json_object_foreach((json_t *)(uintptr_t)servers, name, server)
    {
        (void)json_object_set_new(all, name, make(server));
    }
    root = json_pack("{s:o}", member, all);
    text = root ? atoll_json_dump(root, JSON_INDENT(2)) : NULL;
    r = text ? atoll_buf_appends(out, text) : -ENOMEM;
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    json_decref(root);
    return r;
}

/* --- TOML --- */

/* The strings of JSON are basic strings of TOML: definitions have no control characters. */
static int write_value(struct atoll_buf *out, const json_t *value)
{
    char *text = atoll_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
    int r = text ? atoll_buf_appends(out, text) : -ENOMEM;

    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    return r;
}

static int write_name(struct atoll_buf *out, const char *name)
{
    json_t *text = json_string(name);
    int r = text ? write_value(out, text) : -ENOMEM;

    json_decref(text);
    return r;
}

static int write_map(struct atoll_buf *out, const json_t *map)
{
    const char *name, *between = "{";
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        if (r == 0)
            r = atoll_buf_appends(out, between);
        if (r == 0)
            r = write_name(out, name);
        if (r == 0)
            r = atoll_buf_appends(out, " = ");
        if (r == 0)
            r = write_value(out, value);
        between = ", ";
    }
    return r < 0 ? r : atoll_buf_appends(out, *between == '{' ? "{}" : "}");
}

static int write_member(struct atoll_buf *out, const json_t *server, const char *member,
                        const char *name)
{
    const json_t *value = json_object_get(server, member);
    int r = value ? atoll_buf_appendf(out, "%s = ", name) : 0;

    if (value && r == 0)
        r = json_is_object(value) ? write_map(out, value) : write_value(out, value);
    return value && r == 0 ? atoll_buf_appends(out, "\n") : r;
}

static int write_toml(const json_t *servers, struct atoll_buf *out)
{
    static const char *const names[][2] = {{"command", "command"},
                                           {"args", "args"},
                                           {"env", "env"},
                                           {"url", "url"},
                                           {"headers", "http_headers"}};
    const char *name;
    json_t *server;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)servers, name, server)
    {
        if (r == 0)
            r = atoll_buf_appendf(out, "[mcp_servers.%s]\n", name);
        for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(names); i++)
            r = write_member(out, server, names[i][0], names[i][1]);
    }
    return r;
}

/* --- forms --- */

static const struct {
    const char *name, *member; /* of JSON; NULL: TOML */
    json_t *(*make)(const json_t *server);
} forms[] = {
    {"claude", "mcpServers", for_claude},
    {"codex", NULL, NULL},
    {"gemini", "mcpServers", for_gemini},
    {"opencode", "mcp", for_opencode},
};

static size_t find(const char *name)
{
    size_t i = 0;

    while (i < ATOLL_ARRAY_LEN(forms) && strcmp(forms[i].name, name) != 0)
        i++;
    return i;
}

int atoll_mcp_config_write(const char *form, const json_t *servers, struct atoll_buf *out)
{
    size_t i = find(form);

    if (i == ATOLL_ARRAY_LEN(forms))
        return -EINVAL;
    return forms[i].make ? write_json(servers, forms[i].member, forms[i].make, out)
                         : write_toml(servers, out);
}
