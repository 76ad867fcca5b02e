{{/* Files of this folder say what is installed, deploy/base and its siblings say why. */}}

{{- define "winnpm.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The text of azure-npm.json: to the letter that of deploy/ while nobody changes a key. */}}
{{- define "winnpm.config" -}}
{{- $text := .Files.Get "azure-npm.json" | trim -}}
{{- $all := fromJson $text -}}
{{- if or .Values.config (ne .Values.network $all.WindowsNetworkName) -}}
{{- $text = replace "\"WindowsNetworkName\": \"azure\"" (printf "\"WindowsNetworkName\": %s" (toJson .Values.network)) $text -}}
{{- end -}}
{{- if .Values.config -}}
{{- $text = mergeOverwrite (fromJson $text) .Values.config | toPrettyJson -}}
{{- end -}}
{{ $text }}
{{- end -}}

{{- define "winnpm.port" -}}
{{ (include "winnpm.config" . | fromJson).ListeningPort }}
{{- end -}}

{{- define "winnpm.probePort" -}}
{{ (include "winnpm.config" . | fromJson).ProbeListeningPort }}
{{- end -}}

{{- define "winnpm.nodeSelector" -}}
kubernetes.io/os: windows
{{- with omit .Values.nodeSelector "kubernetes.io/os" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "winnpm.pullSecrets" -}}
{{- with .Values.pullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end -}}
