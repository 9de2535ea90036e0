// Holds GraphQL requests ({query, variables}, a list of them on standard input) against GitHub's own schema:
//
//     node tests/tools/check_graphql.cjs FOLDER < requests.json
//
// FOLDER holds the node_modules that tests/tools/fetch_openapi.sh fetches. Prints what is wrong, as a list of texts.
const { readFileSync } = require("fs");
const { createRequire } = require("module");
const fetched = createRequire(`${process.argv[2]}/`);
const { buildSchema, getOperationAST, getVariableValues, parse, validate } = fetched("graphql");
const described = `${process.argv[2]}/node_modules/@octokit/graphql-schema/schema.graphql`;
// GitHub defines two fields twice, which is against the rules of the language.
const schema = buildSchema(readFileSync(described, "utf8"), { assumeValidSDL: true });

const problems = JSON.parse(readFileSync(0, "utf8")).flatMap(({ query, variables }) => {
  const document = parse(query);
  const errors = validate(schema, document);
  if (errors.length > 0) return errors;
  const declared = getOperationAST(document).variableDefinitions ?? [];
  const named = declared.map((each) => each.variable.name.value);
  const unknown = Object.keys(variables).filter((name) => !named.includes(name));
  return [...(getVariableValues(schema, declared, variables).errors ?? []), ...unknown.map((name) => ({ message: `unknown variable ${name}` }))];
});
console.log(JSON.stringify(problems.map((each) => each.message)));
