/*
 * The description of the API against the tables it describes, in both directions: a route that is
 * not documented and a documented path that nobody serves are both lies.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "api/api.h"
#include "api/rest/openapi.h"
#include "test.h"

static json_t *document;

static int load(void **state)
{
    (void)state;
    document = json_loadb(atoll_openapi_json, atoll_openapi_json_len, JSON_REJECT_DUPLICATES, NULL);
    return document ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(document);
    return 0;
}

/* The operation of that method and path, or NULL. */
static json_t *operation_of(const char *method, const char *path)
{
    json_t *item = json_object_get(json_object_get(document, "paths"), path);
    char lower[16] = "";

    for (size_t i = 0; method[i] && i < sizeof(lower) - 1; i++)
        lower[i] = (char)tolower((unsigned char)method[i]);
    return json_object_get(item, lower);
}

static void test_every_route_is_documented(void **state)
{
    struct atoll_api_route route;
    size_t pos = 0, undocumented = 0;

    (void)state;
    while (atoll_api_next_route(&pos, &route)) {
        json_t *operation = operation_of(route.method, route.path);
        const char *scope = json_string_value(json_object_get(operation, "x-scope"));
        if (!route.is_own) /* other protocols are described by those who made them */
            continue;
        if (operation && scope && strcmp(scope, atoll_scope_name(route.scope)) == 0)
            continue;
        fprintf(stderr, "docs/openapi.json: %s %s %s\n", route.method, route.path,
                operation ? "has another x-scope" : "is missing");
        undocumented++;
    }
    assert_int_equal(undocumented, 0);
}

/* Appends the names of its parameters of the query: "limit, cursor". */
static void names_of(const json_t *operation, char *out, size_t cap)
{
    size_t at, len = 0;
    json_t *parameter;

    out[0] = '\0';
    json_array_foreach(json_object_get(operation, "parameters"), at, parameter)
    {
        const char *ref = json_string_value(json_object_get(parameter, "$ref"));
        const json_t *p =
            ref ? json_object_get(
                      json_object_get(json_object_get(document, "components"), "parameters"),
                      strrchr(ref, '/') + 1)
                : parameter;
        if (strcmp(json_string_value(json_object_get(p, "in")), "query") == 0)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? ", " : "",
                                    json_string_value(json_object_get(p, "name")));
    }
}

/* What is not in the table is refused: it must be all that is documented, and nothing else. */
static void test_queries_are_as_documented(void **state)
{
    struct atoll_api_route route;
    size_t pos = 0, wrong = 0;
    char names[200];

    (void)state;
    while (atoll_api_next_route(&pos, &route)) {
        const json_t *operation = operation_of(route.method, route.path);
        if (!operation || strncmp(route.path, "/api/", 5) != 0)
            continue;
        names_of(operation, names, sizeof(names));
        if (route.query && strcmp(route.query, names) == 0)
            continue;
        fprintf(stderr, "%s %s takes %s, documented are %s\n", route.method, route.path,
                route.query ? route.query : "anything", names);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static bool is_routed(const char *method, const char *path)
{
    struct atoll_api_route route;
    size_t pos = 0;

    while (atoll_api_next_route(&pos, &route))
        if (strcasecmp(route.method, method) == 0 && strcmp(route.path, path) == 0)
            return true;
    return false;
}

static void test_every_documented_path_is_served(void **state)
{
    json_t *item, *operation;
    const char *path, *method;
    size_t unserved = 0;

    (void)state;
    json_object_foreach(json_object_get(document, "paths"), path, item)
        json_object_foreach(item, method, operation)
    {
        if (strcmp(method, "parameters") == 0 || is_routed(method, path))
            continue;
        fprintf(stderr, "docs/openapi.json: nobody serves %s %s\n", method, path);
        unserved++;
    }
    assert_int_equal(unserved, 0);
}

/* {id} in a path needs a parameter of that name, or client generators stumble. */
static void test_parameters_of_paths_are_described(void **state)
{
    json_t *item;
    const char *path;

    (void)state;
    json_object_foreach(json_object_get(document, "paths"), path, item)
    {
        size_t braces = 0;
        for (const char *p = path; *p; p++)
            braces += *p == '{';
        assert_int_equal(json_array_size(json_object_get(item, "parameters")), braces);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_is_documented),
        cmocka_unit_test(test_queries_are_as_documented),
        cmocka_unit_test(test_every_documented_path_is_served),
        cmocka_unit_test(test_parameters_of_paths_are_described),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
