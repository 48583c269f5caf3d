package report

import _ "embed"

// The schemas of what programs read: JSON Schema, draft 2020-12. That of the JSON document is made from the
// types and their comments by the tests.
var (
	//go:embed schema/json.json
	jsonSchema string
	//go:embed schema/csv.json
	csvSchema string
)

// Schemas are the formats that have a schema.
func Schemas() []string { return []string{"json", "csv"} }

// Schema returns the JSON Schema of a format that Schemas lists: of JSON's document, or of one row of CSV as an array
// of its cells. It is strict, and describes what this version writes: a later one may
// add fields under the same JSONFormat, so that a document goes with the schema of the napistall that
// wrote it. For another format it is "".
func Schema(format string) string {
	switch format {
	case "json":
		return jsonSchema
	case "csv":
		return csvSchema
	}
	return ""
}
